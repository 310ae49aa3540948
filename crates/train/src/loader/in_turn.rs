//! Iterates over photos in order, and reads the next photo while the caller processes the current one.

use dapple_scene::{Error, Photo, Result, View};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Calls `look` with each view and its photo, in order. At most two photos that were not in memory are loaded at a
/// time.
///
/// # Errors
/// A photo cannot be read; errors of `look`.
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
        // The channel has no buffer: a photo is handed over when the last one is done.
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
        // The thread ends when the receiver is dropped.
        drop(receive);
        // A panic of the decoder has printed its message, and was reported above.
        let _ = reader.join();
        result
    })
}
