//! Rounds of relocation across ranks: only copies travel, unless the model grows to more than eight times its first size. Then all
//! Gaussians first go to parts with larger blocks.
//!
//! 1. Every rank sends the weights of its Gaussians to all, and computes the same draws: [`dapple_engine::density`].
//! 2. Ranks that hold drawn Gaussians send copies of them to the ranks that hold the places, [`TOGETHER`] copies at a time.
//! 3. Every rank changes its drawn Gaussians and the copies that it received.

use crate::link::Link;
use crate::parts::join_values;
use crate::round;
use bytemuck::{cast_slice, pod_collect_to_vec};
use dapple_engine::density::{self, Draws};
use dapple_engine::sharded::relocation_of;
use dapple_engine::{DensifyPlan, DensifyReport, EngineExt, Part, Sharded};
use dapple_scene::{Error, Result};

/// Copies of all ranks that travel together: their memory is limited.
const TOGETHER: usize = 1 << 18;

/// Executes a round on the engine that holds `part`. Returns its part after the round.
///
/// # Errors
/// Those of the engine, or a rank that failed.
pub fn relocate<E: Sharded>(
    plan: &DensifyPlan,
    link: &mut dyn Link<E::Shipment>,
    engine: &mut E,
    part: Part,
) -> Result<(Part, DensifyReport)> {
    let relocation = relocation_of(plan)?;
    let own = engine.weigh(plan)?;
    let weights = gather_weights(link, part, &own)?;
    let draws = density::draws(plan, relocation, &weights, part.total);
    drop(weights);
    let total = part.total + draws.added;
    let part = match part.grown(total) {
        Some(part) => part,
        None => enlarge_blocks(link, engine, part, total)?,
    };
    if draws.added > 0 {
        engine.grow_part(part)?;
    }
    let mut shared = Vec::new();
    for copies in draws.copies.chunks(TOGETHER) {
        let mut from = vec![Vec::new(); part.engines];
        let mut to = vec![Vec::new(); part.engines];
        for &(place, source) in copies {
            let [(taker, place), (giver, local)] = [place, source].map(|index| part.place(index));
            if giver == part.number {
                from[taker].push(word(local)?);
            }
            if taker == part.number {
                to[giver].push(word(place)?);
                shared.push([word(place)?, draws.drawn[source] + 1]);
            }
        }
        let taken = engine.take_copies(&from)?;
        let received = link.ship(taken)?;
        engine.put_copies(&to, &received)?;
    }
    shared.extend(drawn_of(&draws, part)?);
    engine.share(plan, &shared)?;
    let report = draws.report(plan, part.total);
    Ok((part, report))
}

/// Sends all Gaussians to parts whose blocks are those of a model of `total`. Returns the part of that model.
fn enlarge_blocks<E: Sharded>(
    link: &mut dyn Link<E::Shipment>,
    engine: &mut E,
    before: Part,
    total: usize,
) -> Result<Part> {
    let grown = Part::new(before.number, before.engines, total);
    let after = Part {
        total: before.total,
        ..grown
    };
    let (splats, state) = engine.download()?;
    let (splats, mut next) = round::moved(link, [before, after], (&splats, &state))?;
    next.views = state.views;
    engine.upload(&splats, Some(&next))?;
    engine.set_part(after)?;
    Ok(grown)
}

/// Returns the drawn Gaussians of a part, with the numbers of copies at their places.
fn drawn_of(draws: &Draws, part: Part) -> Result<Vec<[u32; 2]>> {
    let indices = part.ranges().flatten().enumerate();
    let drawn = indices.filter_map(|(local, index)| match draws.drawn.get(index) {
        Some(times @ 1..) => Some(word(local).map(|local| [local, times + 1])),
        _ => None,
    });
    drawn.collect()
}

/// Sends the weights of this part to all ranks, and returns those of the model.
fn gather_weights<S>(link: &mut dyn Link<S>, part: Part, own: &[u32]) -> Result<Vec<u32>> {
    let received = link.exchange(&vec![cast_slice(own); part.engines])?;
    let parts: Vec<Vec<u32>> = received.iter().map(|of| pod_collect_to_vec(of)).collect();
    let parts: Vec<&[u32]> = parts.iter().map(Vec::as_slice).collect();
    let mut numbers = parts.iter().enumerate();
    if numbers.any(|(number, weights)| weights.len() != part.of(number).len()) {
        return Err(Error::internal(
            "a rank sent weights of another number of Gaussians",
        ));
    }
    let mut weights = vec![0; part.total];
    join_values(&parts, 1, part, &mut weights);
    Ok(weights)
}

fn word(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| Error::input("a model has more Gaussians than 32 bits count"))
}
