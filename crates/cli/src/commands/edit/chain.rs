//! Actions of a command line, in their order.
//!
//! clap groups values by option. Each value has an index, its position on the command line. Sorted by the index, the
//! values of all action options are the chain.

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use dapple::scene::edit::{Action, Amount, Order, Region, Similarity, Up, numbers};
use dapple::scene::{Error, MAX_SH_DEGREE};
use glam::DQuat;
use std::path::PathBuf;

/// Entry of the chain.
#[derive(Debug, Clone, PartialEq)]
pub enum Link {
    /// Single action.
    Action(Action),
    /// All actions of a recipe.
    Recipe(PathBuf),
}

/// Chain of actions from the command line.
#[derive(Debug, Clone, Default)]
pub struct Chain(pub Vec<Link>);

/// Option for an action: its name, value, help and parser.
struct Known {
    name: &'static str,
    value: &'static str,
    help: &'static str,
    /// Value used if the option has none.
    missing: Option<&'static str>,
    read: fn(&str) -> Result<Link, Error>,
}

const KNOWN: [Known; 16] = [
    Known {
        name: "translate",
        value: "X,Y,Z",
        help: "Move, world units",
        missing: None,
        read: |text| transform(Similarity::translation(three(text)?)),
    },
    Known {
        name: "rotate",
        value: "X,Y,Z",
        help: "Rotate about the origin by degrees about x, then y, then z. Axes are the world's. Or a quaternion W,X,Y,Z. \
               Rotates the colours too",
        missing: None,
        read: rotation,
    },
    Known {
        name: "scale",
        value: "FACTOR",
        help: "Scale about the origin, by a factor above 0",
        missing: None,
        read: |text| {
            transform(Similarity::scale(one(
                text,
                "one factor is needed, such as 0.1",
            )?))
        },
    },
    Known {
        name: "orient",
        value: "AXIS",
        help: "Level the scene by its cameras: up on an axis (-y as in COLMAP and files of 3DGS, y, z; auto is \
               -y), the ground on its zero, the middle of what was photographed above the origin. Needs cameras",
        missing: None,
        read: |text| match text {
            "auto" | "-y" => Ok(Link::Action(Action::Orient(Up::MinusY))),
            "y" => Ok(Link::Action(Action::Orient(Up::Y))),
            "z" => Ok(Link::Action(Action::Orient(Up::Z))),
            _ => Err(wrong(text, "auto, -y, y and z are known")),
        },
    },
    Known {
        name: "crop",
        value: "REGION",
        help: "Keep Gaussians inside the region: sphere:X,Y,Z,RADIUS, or box:X,Y,Z,WIDTH,HEIGHT,DEPTH about its \
               centre, with three more numbers for a rotation in degrees",
        missing: None,
        read: |text| Ok(Link::Action(Action::Crop(text.parse::<Region>()?))),
    },
    Known {
        name: "cut",
        value: "REGION",
        help: "Remove Gaussians inside the region",
        missing: None,
        read: |text| Ok(Link::Action(Action::Cut(text.parse::<Region>()?))),
    },
    Known {
        name: "keep",
        value: "CONDITION",
        help: "Keep Gaussians with 'opacity>0.1' (in quotes), or opacity,gt,0.1; finite: no value is NaN or \
               infinite",
        missing: None,
        read: |text| Ok(Link::Action(Action::Keep(text.parse()?))),
    },
    Known {
        name: "drop",
        value: "CONDITION",
        help: "Remove Gaussians with 'size>2', 'contribution<1'",
        missing: None,
        read: |text| Ok(Link::Action(Action::Drop(text.parse()?))),
    },
    Known {
        name: "sh-degree",
        value: "N",
        help: "Spherical harmonics up to this degree, 0 to 3",
        missing: None,
        read: |text| match text.parse() {
            Ok(degree) if degree <= MAX_SH_DEGREE => Ok(Link::Action(Action::ShDegree(degree))),
            _ => Err(wrong(text, "choose 0, 1, 2 or 3")),
        },
    },
    Known {
        name: "merge",
        value: "FILE",
        help: "Add the splats of another file, unchanged",
        missing: None,
        read: |text| Ok(Link::Action(Action::Merge(text.into()))),
    },
    Known {
        name: "order",
        value: "CURVE",
        help: "Sort along the Z curve (morton), so that neighbours are close in the file",
        missing: None,
        read: |text| match text {
            "morton" => Ok(Link::Action(Action::Order(Order::Morton))),
            _ => Err(wrong(text, "morton is known")),
        },
    },
    Known {
        name: "floaters",
        value: "SHARE[,CELL]",
        help: "Remove Gaussians that the photos contradict, then the clusters with the least weight, together \
               this percentage [default: 0.01] of all blend weights, or without cameras of opacity \
               times area. A cluster fills touching cubes with a side of CELL [default: from the distances]",
        missing: Some("0.01"),
        read: |text| match *numbers(&text.replace('%', ""))?.as_slice() {
            [share] => checked(Action::Floaters { cell: None, share }),
            [share, cell] => checked(Action::Floaters {
                cell: Some(cell),
                share,
            }),
            _ => Err(wrong(
                text,
                "a share in percent and the side of a cube: --floaters=0.1,0.05",
            )),
        },
    },
    Known {
        name: "drop-sky",
        value: "",
        help: "Remove the sky: the Gaussians on a sphere around all others",
        missing: Some(""),
        read: |text| match text {
            "" => Ok(Link::Action(Action::DropSky)),
            _ => Err(wrong(text, "this option has no value")),
        },
    },
    Known {
        name: "clusters",
        value: "N[,CELL]",
        help: "Keep the N clusters with the most opacity",
        missing: None,
        read: clusters,
    },
    Known {
        name: "prune",
        value: "SHARE",
        help: "Remove Gaussians that contribute least to the photos, together this percentage of all blend \
               weights; 0 removes Gaussians that no photo shows. Needs cameras",
        missing: None,
        read: |text| {
            let share = one(
                text.trim_end_matches('%'),
                "a share in percent is needed, such as 1",
            )?;
            checked(Action::Prune { share })
        },
    },
    Known {
        name: "decimate",
        value: "N|N%",
        help: "Merge neighbours until N Gaussians are left, or N percent. With cameras, keeps what the photos show",
        missing: None,
        read: |text| {
            Ok(Link::Action(Action::Decimate {
                to: text.parse::<Amount>()?,
                refit: 0,
            }))
        },
    },
];

fn wrong(text: &str, hint: &str) -> Error {
    Error::input(format!("\"{text}\" cannot be understood")).hint(hint)
}

fn checked(action: Action) -> Result<Link, Error> {
    action.check()?;
    Ok(Link::Action(action))
}

fn transform(similarity: Similarity) -> Result<Link, Error> {
    checked(Action::Transform(similarity))
}

/// Parses one finite number.
fn one(text: &str, hint: &str) -> Result<f64, Error> {
    match numbers(text).as_deref() {
        Ok(&[number]) => Ok(number),
        _ => Err(wrong(text, hint)),
    }
}

fn three(text: &str) -> Result<[f64; 3], Error> {
    let numbers = numbers(text)?;
    let three = numbers.try_into();
    three.map_err(|_| wrong(text, "three numbers between commas are needed: 0,1.5,-2"))
}

fn rotation(text: &str) -> Result<Link, Error> {
    match *numbers(text)?.as_slice() {
        [x, y, z] => transform(Similarity::from_degrees([x, y, z])),
        [w, x, y, z] => {
            let quat = DQuat::from_xyzw(x, y, z, w);
            let exact = Similarity {
                rotation: [w, x, y, z],
                ..Similarity::IDENTITY
            };
            exact.check()?;
            transform(Similarity::rotation(quat.normalize()))
        }
        _ => Err(wrong(
            text,
            "degrees about x, y and z, such as 0,90,0, or a quaternion W,X,Y,Z",
        )),
    }
}

fn clusters(text: &str) -> Result<Link, Error> {
    let numbers = numbers(text)?;
    let hint = "how many to keep, and the side of a cube: --clusters 1,0.05";
    let (count, cell) = match *numbers.as_slice() {
        [count] => (count, None),
        [count, cell] => (count, Some(cell)),
        _ => return Err(wrong(text, hint)),
    };
    match count.fract() == 0.0 && (1.0..=1e9).contains(&count) {
        true => checked(Action::Clusters {
            cell,
            keep: count as u32,
        }),
        false => Err(wrong(text, hint)),
    }
}

/// Returns the text of an error for clap.
fn in_words(error: &Error) -> String {
    match error.hint_text() {
        Some(hint) => format!("{}: {hint}", error.what()),
        None => error.what().to_owned(),
    }
}

const RECIPE: &str = "recipe";

/// Actions that only `--help` lists.
const RARE: [&str; 3] = ["clusters", "order", "sh-degree"];

impl clap::Args for Chain {
    fn augment_args(command: Command) -> Command {
        let heading = "Actions, applied in the order given; each may be given again";
        let action = |known: &Known| {
            let read = known.read;
            let arg = Arg::new(known.name)
                .long(known.name)
                .value_name(known.value)
                .help(known.help)
                .action(ArgAction::Append)
                .help_heading(heading)
                .hide_short_help(RARE.contains(&known.name))
                .value_parser(move |text: &str| read(text).map_err(|e| in_words(&e)));
            match known.missing {
                None => arg.allow_hyphen_values(true),
                Some("") => arg.num_args(0).default_missing_value(""),
                Some(missing) => arg
                    .allow_hyphen_values(true)
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value(missing),
            }
        };
        let recipe = Arg::new(RECIPE)
            .long(RECIPE)
            .value_name("FILE.json")
            .help("All actions of a recipe, at this place of the chain")
            .action(ArgAction::Append)
            .help_heading(heading)
            .value_parser(value_parser!(PathBuf));
        command.args(KNOWN.iter().map(action)).arg(recipe)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Chain {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut placed: Vec<(usize, Link)> = Vec::new();
        for known in &KNOWN {
            let places = matches.indices_of(known.name).into_iter().flatten();
            let links = matches.get_many::<Link>(known.name).into_iter().flatten();
            placed.extend(places.zip(links.cloned()));
        }
        let places = matches.indices_of(RECIPE).into_iter().flatten();
        let paths = matches.get_many::<PathBuf>(RECIPE).into_iter().flatten();
        placed.extend(places.zip(paths.cloned().map(Link::Recipe)));
        placed.sort_by_key(|(place, _)| *place);
        Ok(Self(placed.into_iter().map(|(_, link)| link).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    fn chain(line: &[&str]) -> Result<Vec<Link>, clap::Error> {
        let command = Chain::augment_args(Command::new("edit"));
        let matches = command.try_get_matches_from([&["edit"], line].concat())?;
        Ok(Chain::from_arg_matches(&matches)?.0)
    }

    #[test]
    fn the_chain_is_in_the_order_of_the_line() {
        let line = [
            "--decimate",
            "10%",
            "--translate",
            "-1,0,2",
            "--floaters",
            "--recipe",
            "a.json",
            "--translate=0,0,1",
            "--floaters=0.5,2",
            "--decimate",
            "7",
        ];
        let links = chain(&line).unwrap();
        let translate = |by| Link::Action(Action::Transform(Similarity::translation(by)));
        let floaters = |share, cell| Link::Action(Action::Floaters { cell, share });
        let decimate = |to| Link::Action(Action::Decimate { to, refit: 0 });
        let wanted = vec![
            decimate(Amount::Percent(10.0)),
            translate([-1.0, 0.0, 2.0]),
            floaters(0.01, None),
            Link::Recipe("a.json".into()),
            translate([0.0, 0.0, 1.0]),
            floaters(0.5, Some(2.0)),
            decimate(Amount::Count(7)),
        ];
        assert_eq!(links, wanted);
    }

    #[test]
    fn values_that_mean_nothing_are_refused_with_an_example() {
        for bad in [
            ["--translate", "1,2"],
            ["--translate", "1,2,nan"],
            ["--rotate", "1"],
            ["--rotate", "0,0,0,0"],
            ["--scale", "0"],
            ["--scale", "-1"],
            ["--scale", "1,2"],
            ["--orient", "x"],
            ["--crop", "sphere:1"],
            ["--keep", "weight>1"],
            ["--sh-degree", "4"],
            ["--order", "hilbert"],
            ["--floaters=-1", "--clusters=1"],
            ["--clusters", "0"],
            ["--clusters", "1.5"],
            ["--prune", "100"],
            ["--decimate", "0"],
            ["--decimate", "150%"],
        ] {
            let error = chain(&bad).unwrap_err().to_string();
            assert!(
                error.contains("invalid value") && error.contains(": "),
                "{bad:?}: {error}"
            );
        }
    }
}
