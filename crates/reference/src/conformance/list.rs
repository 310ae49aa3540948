//! The list of checks. [`conformance_tests!`](crate::conformance_tests) turns it into the tests of an engine.

/// Declares a test for each conformance check.
///
/// - `$variants`: array of functions that create an engine without splats. Variants differ in what must not change a
///   result: threads, subgroups, capacities. The first variant is the usual engine.
/// - `$is_ready`: function that returns false if this machine cannot run the engine. Its tests then do nothing.
///
/// A new check is a row here, and every engine runs it:
///
/// - `first`: checks of one engine, which get the first variant;
/// - `each`: the same, for every variant;
/// - `all`: checks that compare the variants with each other.
#[macro_export]
macro_rules! conformance_tests {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [
                images_match_the_reference,
                gradients_match_the_reference,
                real_capture_matches_the_reference,
                loss_and_gradient_match_the_reference,
                adam_takes_the_textbook_step,
                gaussians_that_are_not_finite_are_reported,
                density_control_follows_the_plan,
                extras_match_the_reference,
                the_cap_says_what_it_cut,
                bytes_are_those_of_the_host,
                surfaces_match_the_reference,
                depths_match_the_reference,
                depth_gradients_match_the_reference,
                depth_steps_match_the_reference,
                appearance_matches_the_reference,
                photometric_matches_the_reference,
                appearance_mlp_matches_the_reference,
                antialiasing_matches_the_reference,
                steps_refresh_the_3d_filter,
                density_control_carries_the_3d_filter,
            ],
            each: [
                relocation_follows_the_plan,
                dropout_matches_the_reference,
                blend_counts_match_the_reference,
                scores_match_the_reference,
            ],
            all: [
                runs_repeat_themselves,
                mcmc_repeats_itself,
                appearance_repeats_itself,
                photometric_repeats_itself,
                appearance_mlp_repeats_itself,
                depth_steps_repeat_themselves,
                antialiased_runs_repeat_themselves,
                absolute_density_matches_the_reference,
                poses_match_the_reference,
            ],
        }
    };
    (
        @tests $variants:path, $is_ready:path,
        first: [$($first:ident),* $(,)?],
        each: [$($each:ident),* $(,)?],
        all: [$($all:ident),* $(,)?],
    ) => {
        $(
            #[test]
            fn $first() {
                if $is_ready() {
                    $crate::conformance::$first(&$variants[0]);
                }
            }
        )*
        $(
            #[test]
            fn $each() {
                if $is_ready() {
                    for variant in &$variants {
                        $crate::conformance::$each(variant);
                    }
                }
            }
        )*
        $(
            #[test]
            fn $all() {
                if $is_ready() {
                    let variants = $variants.each_ref().map(|variant| variant as $crate::conformance::Make<'_>);
                    $crate::conformance::$all(&variants);
                }
            }
        )*
    };
}
