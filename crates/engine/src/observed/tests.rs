#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::{EngineExt, TileMask};
use dapple_scene::Pose;
use std::sync::{Mutex, PoisonError};

/// All calls but `OnDevice`, whose methods are in the crate `dapple-device`, and which is the last.
const CALLS: &[&str] = Call::NAMES.split_at(Call::NAMES.len() - 1).0;

/// Names in the order of calls.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn push(&self, name: &'static str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(name);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Engine that logs its calls.
struct Logging {
    log: Log,
    /// True to have all extensions.
    extends: bool,
    tiles: Option<TileMask>,
}

impl Engine for Logging {
    fn description(&self) -> String {
        "logging".to_owned()
    }
    fn memory_plan(&self, settings: &StepSettings) -> Option<MemoryPlan> {
        Some(MemoryPlan {
            gaussians: 100 + usize::from(settings.render.sh_degree),
            bytes_each: 1000,
            bytes: Some(200_000),
            by_buffer: false,
            engines: 1,
            held: 300,
            bytes_held: 600,
            smaller: None,
        })
    }
    fn upload(&mut self, _: &Splats, _: Option<&OptimizerState>) -> Result<()> {
        self.log.push("Upload");
        Ok(())
    }
    fn download_parts(&mut self, _: DownloadParts) -> Result<(Splats, OptimizerState)> {
        self.log.push("Download");
        Ok(<(Splats, OptimizerState)>::default())
    }
    fn add_views(&mut self, _: Vec<TrainView>) -> Result<Vec<ViewId>> {
        self.log.push("AddViews");
        Ok(vec![ViewId(0)])
    }
    fn set_input(&mut self, _: FeatureInput) -> Result<()> {
        self.log.push("SetInput");
        Ok(())
    }
    fn step(&mut self, _: ViewId, _: &StepSettings) -> Result<()> {
        self.log.push("Step");
        Ok(())
    }
    fn densify(&mut self, _: &DensifyPlan) -> Result<()> {
        self.log.push("Densify");
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        self.log.push("Finish");
        Ok(())
    }
    fn poll(&mut self) -> Result<Vec<Report>> {
        self.log.push("Poll");
        Ok(Vec::new())
    }
    fn render(&mut self, camera: &Camera, _: &RenderSettings) -> Result<Rendered> {
        self.log.push("Render");
        let pixels = (camera.width * camera.height) as usize;
        Ok(Rendered {
            width: camera.width,
            height: camera.height,
            rgb: vec![1.0; 3 * pixels],
            alpha: vec![1.0; pixels],
            ..Rendered::default()
        })
    }
    fn differentiate(
        &mut self,
        _: &Camera,
        _: &RenderSettings,
        _: &ImageDerivative<'_, f32>,
        _: GradientParts,
    ) -> Result<Gradients<f32>> {
        self.log.push("Differentiate");
        Ok(Gradients::default())
    }
    fn streaming(&mut self) -> Option<&mut dyn Streaming> {
        self.extends.then_some(self as _)
    }
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        None
    }

    fn scoring(&mut self) -> Option<&mut dyn Scoring> {
        self.extends.then_some(self as _)
    }
    fn showing(&mut self) -> Option<&mut dyn Showing> {
        self.extends.then_some(self as _)
    }
    fn tiling(&mut self) -> Option<&mut dyn Tiling> {
        self.extends.then_some(self as _)
    }
    fn instruments(&mut self) -> Option<&mut dyn Instrumented> {
        None
    }
}

impl Streaming for Logging {
    fn add_cameras(&mut self, _: &[Camera]) -> Result<Vec<ViewId>> {
        self.log.push("AddViews");
        Ok(vec![ViewId(1)])
    }
    fn put_photo(&mut self, _: ViewId, _: Arc<Photo>) -> Result<()> {
        self.log.push("PutPhoto");
        Ok(())
    }
    fn announce(&mut self, _: ViewId, _: Option<Arc<Photo>>) -> Result<()> {
        self.log.push("Announce");
        Ok(())
    }
}

impl Tiling for Logging {
    fn choose_tiles(&mut self, tiles: Option<TileMask>) {
        self.tiles = tiles;
    }
}

impl Scoring for Logging {
    fn score(
        &mut self,
        _: &Camera,
        _: &RenderSettings,
        _: &Photo,
        _: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        self.log.push("Score");
        Ok(None)
    }
}

impl Showing for Logging {
    fn render_bytes(&mut self, _: &Camera, _: &RenderSettings) -> Result<RenderedBytes> {
        self.log.push("RenderBytes");
        Ok(RenderedBytes::default())
    }
    fn blend_counts(&mut self, _: &Camera, _: &RenderSettings) -> Result<BlendCounts> {
        self.log.push("BlendCounts");
        Ok(BlendCounts::default())
    }
    fn contributors(&mut self, _: &Camera, _: &RenderSettings, _: usize) -> Result<Contributors> {
        self.log.push("Contributors");
        Ok(Contributors::default())
    }
}

/// Logs calls, or fails them.
struct Listens {
    calls: Log,
    fails: bool,
}

impl CallListener for Listens {
    fn on_call<E: Engine + ?Sized, R>(
        &self,
        call: &Call<'_>,
        engine: &mut E,
        run: impl FnOnce(&mut E) -> Result<R>,
    ) -> Result<R> {
        self.calls.push(call.name());
        match self.fails {
            true => Err(Error::internal("the listener fails the call")),
            false => run(engine),
        }
    }

    fn on_reports<E: Engine + ?Sized>(&self, _engine: &mut E, _reports: &mut Vec<Report>) {
        self.calls.push("reports");
    }
}

/// Executes every call; returns the number of failures.
fn call_everything(engine: &mut dyn Engine) -> usize {
    let camera = Camera::pinhole(4, 3, 4.0, Pose::IDENTITY);
    let photo = Arc::new(Photo::from_rgb(4, 3, vec![0; 36]));
    let settings = RenderSettings::default();
    let step = StepSettings::new(1, settings);
    let view = TrainView {
        camera,
        photo: Arc::clone(&photo),
    };
    let plan = DensifyPlan {
        step: 1,
        seed: 0,
        grow_gradient: None,
        split_scale: 1.0,
        prune_opacity: None,
        prune_scale: None,
        max_gaussians: 1,
        room_share: 1.0,
        reset_opacity: None,
        ..DensifyPlan::NOTHING
    };
    let id = ViewId(0);
    let asks = ScoreAsks::default();
    [
        engine.upload(&Splats::default(), None),
        engine.download().map(drop),
        engine.add_views(vec![view]).map(drop),
        engine.set_crop_loss(None),
        engine.step(id, &step),
        engine.densify(&plan),
        engine.finish(),
        engine.poll().map(drop),
        engine.render(&camera, &settings).map(drop),
        engine
            .blend_gradients(&camera, &settings, &[0.0; 36])
            .map(drop),
        engine.add_cameras(&[camera]).map(drop),
        engine.put_photo(id, Arc::clone(&photo)),
        engine.announce(id, None),
        engine.score(&camera, &settings, &photo, asks).map(drop),
        engine.render_bytes(&camera, &settings).map(drop),
        engine.blend_counts(&camera, &settings).map(drop),
        engine.contributors(&camera, &settings, 4).map(drop),
    ]
    .iter()
    .filter(|result| result.is_err())
    .count()
}

/// Returns the log's different names, in the order of [`CALLS`]; fails at other names.
fn names(log: &Log) -> Vec<&'static str> {
    let seen = log.take();
    let is_call = |name: &&str| CALLS.contains(name) || *name == "reports";
    assert!(seen.iter().all(is_call), "{seen:?}");
    let all = CALLS.iter().copied();
    all.filter(|name| seen.contains(name)).collect()
}

#[test]
fn every_call_passes_the_listener_and_reaches_the_engine() {
    let (calls, inside) = (Log::default(), Log::default());
    let listener = |fails| Listens {
        calls: calls.clone(),
        fails,
    };
    let logging = || {
        Box::new(Logging {
            log: inside.clone(),
            extends: true,
            tiles: None,
        })
    };
    let boxed: Box<dyn Engine> = logging();
    let mut observed = Observed::new(listener(false), boxed);
    assert_eq!(call_everything(&mut observed), 0);
    assert!(calls.0.lock().unwrap().contains(&"reports"));
    assert_eq!(names(&calls), CALLS, "the listener");
    assert_eq!(names(&inside), CALLS, "the engine inside");
    // Methods without a call.
    assert_eq!(observed.description(), "logging");
    let settings = StepSettings::new(1, RenderSettings::default());
    let plan = observed.memory_plan(&settings).unwrap();
    assert_eq!((plan.gaussians, plan.bytes_of(3)), (103, 3000));
    assert_eq!(plan.times(2).bytes, Some(400_000));
    assert!(observed.instruments().is_none());

    let mut failing = Observed::new(listener(true), logging());
    assert_eq!(call_everything(&mut failing), 17);
    assert_eq!(names(&calls), CALLS);
    assert!(inside.take().is_empty(), "a failed call reaches no engine");
}

#[test]
fn an_observed_engine_has_the_extensions_of_the_engine_inside() {
    let listener = Listens {
        calls: Log::default(),
        fails: false,
    };
    let inside = Logging {
        log: Log::default(),
        extends: false,
        tiles: None,
    };
    let mut observed = Observed::new(listener, Box::new(inside));
    let engine: &mut dyn Engine = &mut observed;
    assert!(engine.streaming().is_none());
    assert!(engine.scoring().is_none() && engine.showing().is_none());
    let camera = Camera::pinhole(4, 3, 4.0, Pose::IDENTITY);
    let settings = RenderSettings::default();
    let photo = Arc::new(Photo::from_rgb(4, 3, vec![0; 36]));
    // Results without the extensions.
    let refused = engine.put_photo(ViewId(0), Arc::clone(&photo)).unwrap_err();
    assert!(
        refused.to_string().contains("only all at once"),
        "{refused}"
    );
    engine.announce(ViewId(0), None).unwrap();
    let asks = ScoreAsks::default();
    let scored = engine.score(&camera, &settings, &photo, asks).unwrap();
    assert!(scored.is_none());
    let bytes = engine.render_bytes(&camera, &settings).unwrap();
    assert_eq!(bytes.rgba, [255; 48]);
    assert!(engine.blend_counts(&camera, &settings).is_err());
    assert!(engine.contributors(&camera, &settings, 4).is_err());
    let tiles = TileMask::new([1, 1], &[true]).unwrap();
    let refused = engine.with_tiles(Some(&tiles), |_| Ok(())).unwrap_err();
    assert!(
        refused.to_string().contains("only whole images"),
        "{refused}"
    );
    engine.with_tiles(None, |_| Ok(())).unwrap();
}

#[test]
fn tiles_are_chosen_for_a_closure_only() {
    let listener = Listens {
        calls: Log::default(),
        fails: false,
    };
    let inside = Logging {
        log: Log::default(),
        extends: true,
        tiles: None,
    };
    let mut engine = Observed::new(listener, Box::new(inside));
    let tiles = TileMask::new([2, 1], &[true, false]).unwrap();
    for fails in [false, true] {
        let ended = engine.with_tiles(Some(&tiles), |engine| {
            assert_eq!(engine.inner().tiles.as_ref(), Some(&tiles));
            match fails {
                true => Err(Error::internal("a fault")),
                false => Ok(()),
            }
        });
        assert_eq!(ended.is_err(), fails);
        assert_eq!(engine.inner().tiles, None);
    }
}
