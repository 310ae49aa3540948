//! Option names of other programs: the parser prints Dapple's name as a hint.

/// Option names of other programs, and the equivalent options of Dapple.
const OTHERS: [(&[&str], &[&str]); 15] = [
    (
        &[
            "--iterations",
            "--iters",
            "--max-steps",
            "--max_steps",
            "--max-iterations",
            "--num-steps",
            "--max-num-iterations",
            "--epochs",
        ],
        &["--steps"],
    ),
    (
        &[
            "--resolution",
            "--data-factor",
            "--data_factor",
            "--downscale-factor",
            "--res",
        ],
        &["--width", "--downscale", "--max-resolution"],
    ),
    (
        &["--size", "--image-size"],
        &["--width", "--max-resolution"],
    ),
    (
        &["--fov", "--hfov", "--field-of-view", "--field_of_view"],
        &["--fov"],
    ),
    (
        &[
            "--output",
            "--output-dir",
            "--output_path",
            "--output-path",
            "--model_path",
            "--model-path",
            "--result-dir",
            "--result_dir",
        ],
        &["--out"],
    ),
    (
        &[
            "--cap-max",
            "--cap_max",
            "--max-splats",
            "--max_splats",
            "--num-gaussians",
        ],
        &["--max-gaussians"],
    ),
    (
        &["--white_background", "--white-background"],
        &["--background"],
    ),
    (
        &["--eval", "--test-every", "--test_every", "--llffhold"],
        &["--eval-every"],
    ),
    (
        &["--gpu", "--cuda", "--cuda-device", "--data_device", "--cpu"],
        &["--device"],
    ),
    (
        &[
            "--checkpoint",
            "--ckpt",
            "--start_checkpoint",
            "--start-checkpoint",
            "--load-checkpoint",
        ],
        &["--resume"],
    ),
    (
        &[
            "--save-every",
            "--save_iterations",
            "--checkpoint_iterations",
        ],
        &["--checkpoint-every"],
    ),
    (&["--viewer", "--with-viewer", "--gui"], &["--view"]),
    (&["--colourmap", "--cmap", "--color-map"], &["--colormap"]),
    (&["--force", "--yes"], &["--overwrite"]),
    (&["--random-seed", "--random_seed"], &["--seed"]),
];

/// Command names that users try, and the equivalent command lines of Dapple.
const OTHER_VERBS: [(&[&str], &str); 5] = [
    (&["resume", "continue"], "dapple train --resume OUT"),
    (&["viewer", "serve", "show"], "dapple view SPLATS"),
    (&["test", "metrics", "score"], "dapple eval SPLATS"),
    (&["compress", "transform"], "dapple convert SPLATS OUTPUT"),
    (
        &["process-data", "ns-process-data", "colmap"],
        "dapple photos PHOTOS -o CAPTURE",
    ),
];

/// Returns a hint for a command that Dapple does not have.
pub fn verb_hint(given: &str) -> Option<String> {
    let mut rows = OTHER_VERBS.iter();
    let (_, ours) = rows.find(|(names, _)| names.contains(&given))?;
    Some(format!("`{ours}` does this"))
}

/// Returns a hint for an option that a command does not have; `has` returns true for the options of the command,
/// `others` the command that has the option.
pub fn hint(
    given: &str,
    has: impl Fn(&str) -> bool,
    others: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let name = given.split('=').next().unwrap_or(given);
    let (_, ours) = OTHERS.iter().find(|(names, _)| names.contains(&name))?;
    let here: Vec<String> = ours
        .iter()
        .filter(|option| has(option))
        .map(|option| format!("`{option}`"))
        .collect();
    match here.split_last() {
        Some((one, [])) => Some(format!("the option is called {one} here")),
        Some((last, rest)) => Some(format!(
            "the options for this are {} and {last}",
            rest.join(", ")
        )),
        None => {
            let found = ours
                .iter()
                .find_map(|option| Some((others(option)?, option)));
            found.map(|(command, option)| format!("`dapple {command}` has `{option}`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_become_hints() {
        let none = |_: &str| None;
        let all = |_: &str| true;
        let hint_of = |name| hint(name, all, none).unwrap_or_default();
        assert!(hint_of("--iterations").contains("`--steps`"));
        assert!(hint_of("--max_steps=7").contains("`--steps`"));
        assert!(hint_of("--resolution").contains("`--downscale` and `--max-resolution`"));
        assert_eq!(hint("--nonsense", all, none), None);
        let resume = verb_hint("resume").unwrap_or_default();
        assert!(resume.contains("`dapple train --resume OUT`"), "{resume}");
        assert_eq!(verb_hint("nonsense"), None);
        let elsewhere = hint("--fov", |_| false, |_| Some("render".to_owned()));
        assert_eq!(elsewhere.unwrap_or_default(), "`dapple render` has `--fov`");
    }
}
