//! The hooks of a run and the order of their calls.
//!
//! | order | hook | waits for the engine | returns |
//! |---|---|---|---|
//! | 1 | step rate controller | never | amendments |
//! | 2 | validation | when a validation is due | |
//! | 3 | extension checks | at both ends of a check | amendments |
//! | 4 | scoring | when a scoring is due | |
//! | 5 | hooks added by the caller, such as a viewer | as they like | checkpoints, amendments |
//! | 6 | checkpoints | for each checkpoint | checkpoints |
//!
//! Amendments come before scoring, so that a scoring sees the new last step, and checkpoints come last, so that they
//! hold the state of all other hooks.
//!
//! A new built-in hook is a file with its `impl RunHook`, a field of [`Hooks`] and its place in [`Hooks::each`].

use super::held_out::HeldOut;
use crate::event::Event;
use crate::extension::ExtensionHook;
use crate::hook::{CheckpointKind, DeviceRequirements, RunHook};
use crate::saving::Saving;
use crate::time_budget::StepRateHook;
use crate::validation::Validation;
use crate::{Checkpoint, ShardPlace};
use dapple_scene::Result;

/// Hooks of one call of the trainer.
pub(crate) type Callers<'a, 'b> = &'a mut [&'b mut dyn RunHook];

/// All hooks of a run, except those of a call.
pub(crate) struct Hooks {
    pub(crate) step_rate: StepRateHook,
    pub(crate) watch: Validation,
    pub(crate) extension: ExtensionHook,
    pub(crate) held_out: HeldOut,
    pub(crate) added: Vec<Box<dyn RunHook + Send>>,
    pub(crate) saving: Saving,
}

impl Hooks {
    /// Returns the hooks in the order of their calls.
    pub(crate) fn each<'a>(&'a mut self, callers: Callers<'a, '_>) -> Vec<&'a mut dyn RunHook> {
        let mut all: Vec<&'a mut dyn RunHook> = vec![
            &mut self.step_rate,
            &mut self.watch,
            &mut self.extension,
            &mut self.held_out,
        ];
        for hook in &mut self.added {
            all.push(hook.as_mut());
        }
        for hook in callers {
            all.push(&mut **hook);
        }
        all.push(&mut self.saving);
        all
    }

    /// Returns the needs of all hooks together.
    pub(crate) fn needs(&mut self, callers: Callers<'_, '_>) -> DeviceRequirements {
        let mut all = DeviceRequirements::default();
        for hook in self.each(callers) {
            let needs = hook.needs();
            all.pictures |= needs.pictures;
            all.checkpoints |= needs.checkpoints;
            all.final_state |= needs.final_state;
        }
        all
    }

    /// Returns where the parts of a shared model are written; `None` if a hook needs all in memory, or none has a place.
    pub(crate) fn shard_place(
        &mut self,
        of: CheckpointKind,
        callers: Callers<'_, '_>,
    ) -> Result<Option<ShardPlace>> {
        let mut found = None;
        for hook in self.each(callers) {
            let needs = hook.needs();
            let takes = match of {
                CheckpointKind::OfSteps => needs.checkpoints,
                CheckpointKind::Final => needs.final_state,
            };
            if !takes {
                continue;
            }
            match (hook.shard_place(of)?, &found) {
                (Some(place), None) => found = Some(place),
                _ => return Ok(None),
            }
        }
        Ok(found)
    }

    /// Sends an event to all hooks that take it.
    pub(crate) fn send(&mut self, event: &Event<'_>, callers: Callers<'_, '_>) -> Result<()> {
        for hook in self.each(callers) {
            if !matches!(event, Event::Checkpoint(_)) || hook.needs().checkpoints {
                hook.on(event)?;
            }
        }
        Ok(())
    }

    /// Returns true if a hook stops the run.
    pub(crate) fn should_stop(&mut self, callers: Callers<'_, '_>) -> bool {
        self.each(callers).iter().any(|hook| hook.should_stop())
    }

    /// Stores the state of the hooks in a checkpoint.
    pub(crate) fn add_to(&self, checkpoint: &mut Checkpoint) {
        self.watch.add_to(checkpoint);
        self.extension.add_to(checkpoint);
    }

    /// Restores the state of the hooks from a checkpoint.
    pub(crate) fn take_from(&mut self, checkpoint: &mut Checkpoint) {
        self.watch.take_from(checkpoint);
        self.extension.take_from(checkpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::Silent;
    use crate::{CaptureIdentity, Preset};

    #[test]
    fn amendments_come_before_scores_and_checkpoints_come_last() {
        let config = Preset::Micro.config();
        let mut hooks = Hooks {
            step_rate: StepRateHook::default(),
            watch: Validation::new(Vec::new(), &config),
            extension: ExtensionHook::new(&[], &config.clone().into()),
            held_out: HeldOut {
                views: Vec::new(),
                lpips: None,
            },
            added: vec![Box::new(Silent)],
            saving: Saving::new(CaptureIdentity::default()),
        };
        let mut silent = Silent;
        let mut callers: [&mut dyn RunHook; 1] = [&mut silent];
        let order: Vec<&str> = hooks
            .each(&mut callers)
            .iter()
            .map(|hook| hook.name())
            .collect();
        assert_eq!(
            order,
            [
                "step rate",
                "validation",
                "extension checks",
                "scoring",
                "silent",
                "silent",
                "checkpoints"
            ]
        );
        assert_eq!(hooks.needs(&mut callers), DeviceRequirements::default());
    }
}
