//! Photos and videos to captures, with an installed structure-from-motion tool.
//!
//! [`make`] runs these stages. Each is resumable: see [`work`].
//!
//! 1. `video`: frames of videos, chosen by sharpness and difference.
//! 2. `photos`: photos are checked and copied into `images/`, masks into `masks/`.
//! 3. `tool`: COLMAP's command line or pycolmap finds features, matches the pairs of `pairs`, and finds poses.
//! 4. `quality`: checks of the reconstruction; each finding has a remedy.
//! 5. `frame`: up axis, scale and position, by cameras, GPS or a known distance.
//! 6. `report`: `report.html`, and the model in `sparse/0`.
//!
//! [`make_watched`] also passes on cameras and points while the tool finds them: `watch`.
//!
//! ```no_run
//! use dapple_photos::{Options, make};
//!
//! let options = Options::new(vec!["walk.mp4".into()], "captures/walk".into());
//! let done = make(&options, &dapple_base::NoProgress)?;
//! println!("{} of {} photos have a pose", done.review.registered, done.review.photos);
//! # Ok::<(), dapple_base::Error>(())
//! ```

mod add;
mod algebra;
pub mod database;
mod exif_data;
mod files;
pub mod frame;
pub mod inputs;
mod make;
pub mod model;
mod options;
mod pairs;
mod photos;
pub mod quality;
mod report;
mod sharpness;
mod stages;
pub mod tool;
pub mod video;
mod watch;
pub mod work;

pub use add::{Added, Base, add, default_out};
pub use frame::{Distance, Frame};
pub use make::{Done, make, make_watched};
pub use options::{Mapper, Options};
pub use pairs::Choice;
pub use quality::{Finding, Review};
pub use tool::Tool;
pub use watch::{Snapshot, Watch, frustum};
