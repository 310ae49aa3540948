#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

/// Model whose parts are cut from one.
struct Cut {
    parts: Vec<Part>,
    splats: Splats,
    state: OptimizerState,
    /// Folder that is made when the last part is read.
    obstacle: Option<PathBuf>,
}

impl Cut {
    fn new(total: usize, engines: usize) -> Self {
        let numbered = |salt: usize| {
            let mut splats = groups::zeros(total, 1);
            for (k, group) in PARAM_GROUPS.into_iter().enumerate() {
                let values = group.values_mut(&mut splats).iter_mut().enumerate();
                values.for_each(|(i, value)| *value = (salt + 100 * k + 1000 * i) as f32);
            }
            splats
        };
        let state = OptimizerState {
            first_moments: numbered(1),
            second_moments: numbered(2),
            gradient_sums: (0..total).map(|i| i as f32).collect(),
            visible_counts: (0..total).map(|i| 2.0 * i as f32).collect(),
            ..OptimizerState::default()
        };
        Self {
            parts: (0..engines)
                .map(|number| Part::new(number, engines, total))
                .collect(),
            splats: numbered(0),
            state,
            obstacle: None,
        }
    }

    fn of(&self, part: Part) -> (Splats, OptimizerState) {
        let order: Vec<usize> = part.ranges().flatten().collect();
        let gathered = |of: &Splats| dapple_scene::order::gather(of, &order);
        let numbers = |of: &[f32]| order.iter().map(|&i| of[i]).collect();
        let state = OptimizerState {
            first_moments: gathered(&self.state.first_moments),
            second_moments: gathered(&self.state.second_moments),
            gradient_sums: numbers(&self.state.gradient_sums),
            visible_counts: numbers(&self.state.visible_counts),
            ..OptimizerState::default()
        };
        (gathered(&self.splats), state)
    }
}

impl Sharing for Cut {
    fn parts(&self) -> Vec<Part> {
        self.parts.clone()
    }

    fn download_part(&mut self, number: usize) -> Result<(Splats, OptimizerState)> {
        if let Some(path) = self
            .obstacle
            .as_ref()
            .filter(|_| number + 1 == self.parts.len())
        {
            std::fs::create_dir(path).unwrap();
        }
        Ok(self.of(self.parts[number]))
    }

    fn upload_by_parts(&mut self, _: usize, _: &mut dapple_engine::ReadPart<'_>) -> Result<()> {
        unreachable!("only read")
    }
}

fn place(folder: &Path) -> ShardPlace {
    ShardPlace {
        checkpoint: folder.join("checkpoint.safetensors"),
        stem: "checkpoint",
        packs: false,
    }
}

/// 700 Gaussians in blocks of six do not fill the last block.
#[test]
fn any_part_is_read_from_files_of_other_parts() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = Cut::new(700, 3);
    let written = Shards::write(&place(folder.path()), &mut model)
        .unwrap()
        .unwrap();
    assert!(written.splats == model.splats);
    assert!(written.state.visible_counts == model.state.visible_counts);
    let mut open = written.shards.open(true).unwrap();
    for engines in [1, 2, 5, 128] {
        for number in [0, engines / 2, engines - 1] {
            let part = Part::new(number, engines, 700);
            assert!(open.read_part(part, (1, false)).unwrap() == model.of(part));
        }
    }
    assert!(open.read_part(Part::whole(700), (2, false)).is_err());
    assert!(open.read_part(Part::whole(701), (1, false)).is_err());
}

/// The disk may be full: the results of the run need the space.
#[test]
fn parts_of_a_checkpoint_that_could_not_be_written_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let obstacle = folder.path().join("checkpoint.a.2.safetensors");
    let mut model = Cut {
        obstacle: Some(obstacle),
        ..Cut::new(40, 3)
    };
    let written = Shards::write(&place(folder.path()), &mut model).unwrap();
    let error = written.map(drop).unwrap_err();
    assert!(error.place().unwrap().contains("checkpoint.a.2"), "{error}");
    let left = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(left.count(), 1, "the obstacle");
}

#[test]
fn files_that_contradict_the_checkpoint_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = Cut::new(40, 2);
    let shards = Shards::write(&place(folder.path()), &mut model)
        .unwrap()
        .unwrap()
        .shards;
    let refused = |shards: Shards, words: &str| {
        let error = shards.open(false).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    for total in [0, 39, 41, usize::MAX] {
        refused(
            Shards {
                total,
                ..shards.clone()
            },
            "other numbers",
        );
    }
    let mut swapped = shards.clone();
    swapped.files.swap(0, 1);
    swapped.files[0].crc32 = shards.files[0].crc32.clone();
    refused(swapped, "another checkpoint");
}

#[test]
fn names_lead_to_no_other_folder() {
    assert!(is_shard_name("checkpoint.a.0.safetensors") && is_shard_name("state.b.12.safetensors"));
    for name in [
        "../x.a.0.safetensors",
        "folder/x.a.0.safetensors",
        "folder\\x.a.0.safetensors",
        "x.c.0.safetensors",
        "x.a..safetensors",
        "x.a.-1.safetensors",
        "x.a.0.0.safetensors",
        "x.safetensors",
    ] {
        assert!(!is_shard_name(name), "{name}");
    }
}
