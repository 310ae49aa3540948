//! The list of checks. [`conformance_tests!`](crate::conformance_tests) turns it into the tests of an engine.

/// Declares a test for each conformance check.
///
/// - `$variants`: array of functions that create an engine without splats. Variants differ in what must not change a
///   result: threads, subgroups, capacities. The first variant is the usual engine.
/// - `$is_ready`: function that returns false if this machine cannot run the engine. Its tests then do nothing.
///
/// Checks of a feature are in its `checks!` ([`crate::features`]). Any other new check is a row here, and every engine
/// runs it:
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
            ],
            each: [
                relocation_follows_the_plan,
                frozen_gaussians_stay,
                focus_steers_density_control,
                the_sky_keeps_its_shape,
                blend_counts_match_the_reference,
                contributors_match_the_reference,
                chosen_tiles_match_the_reference,
                scores_match_the_reference,
            ],
            all: [
                runs_repeat_themselves,
                mcmc_repeats_itself,
                absolute_density_matches_the_reference,
                batches_match_the_reference,
            ],
        }
        $crate::conformance_tests! { @features ($) $variants, $is_ready }
    };
    (@features ($d:tt) $variants:path, $is_ready:path) => {
        macro_rules! checks_of_features {
            ($d(#[doc = $d text:literal] $d name:ident,)*) => {
                $d($crate::features::$d name::checks! { $variants, $is_ready })*
            };
        }
        $crate::for_each_feature!(checks_of_features);
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
