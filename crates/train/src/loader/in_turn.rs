//! Photos one after the other, the next one read while the present one is looked at.

use dapple_scene::{Error, Photo, Result, View};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Calls `look` with each view and its photo, in order. Of photos that are not in memory, two are at any
/// time.
///
/// # Errors
/// A photo that cannot be read, and what `look` returns.
pub(crate) fn in_turn(
    views: &[&View],
    look: &mut dyn FnMut(&View, Arc<Photo>) -> Result<()>,
) -> Result<()> {
    if !views.iter().any(|view| view.photo.is_file()) {
        return views
            .iter()
            .try_for_each(|view| look(view, view.photo.read()?));
    }
    std::thread::scope(|scope| {
        // Nothing waits in the channel: a photo that was read is handed over when the last is done.
        let (send, receive) = sync_channel(0);
        let reader = scope.spawn(move || {
            for view in views {
                if send.send(view.photo.read()).is_err() {
                    return;
                }
            }
        });
        let result = views.iter().try_for_each(|view| {
            let photo = receive.recv().unwrap_or_else(|_| {
                Err(
                    Error::input("the photo cannot be decoded: its decoder failed")
                        .at(view.name.clone()),
                )
            })?;
            look(view, photo)
        });
        // The thread ends when nobody listens.
        drop(receive);
        // A decoder that panicked has said so, and was reported above.
        let _ = reader.join();
        result
    })
}
