"""Runs one stage of pycolmap: `python driver.py STAGE SETTINGS.json`. Prints one JSON object per line.

Stages: features, matches, map, refine, register. Keys of the settings: see tool/pycolmap.rs.
"""
import json
import os
import sqlite3
import sys
import threading

import pycolmap


def say(**line):
    print(json.dumps(line), flush=True)


def put(options, path, value):
    """Sets options.a.b for the path "a.b", if this version of pycolmap has the option."""
    *inner, last = path.split(".")
    for name in inner:
        options = getattr(options, name, None)
    if options is not None and hasattr(options, last):
        setattr(options, last, value)
        return True
    return False


def count_rows(database, table, done):
    """Reports the number of rows of a table every half second, until `done` is set."""
    shown = 0
    while not done.wait(0.5):
        try:
            with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=0.2) as connection:
                (now,) = connection.execute(f"select count(*) from {table}").fetchone()
        except sqlite3.Error:
            continue
        if now != shown:
            shown = now
            say(done=now)


class Counted:
    """Reports rows of a table while the body runs."""

    def __init__(self, database, table):
        self.done = threading.Event()
        self.thread = threading.Thread(target=count_rows, args=(database, table, self.done), daemon=True)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def reader_options(group, settings):
    options = pycolmap.ImageReaderOptions()
    put(options, "camera_model", group["model"])
    if group["parameters"]:
        put(options, "camera_params", group["parameters"])
    if settings["masks"]:
        put(options, "mask_path", settings["masks"])
    return options


def features(settings):
    database, images = settings["database"], settings["images"]
    if not os.path.exists(database):
        connection = pycolmap.Database.open(database)
        connection.close()
    # Images enter the database in order, by one thread: their numbers are the same in every run.
    for group in settings["groups"]:
        pycolmap.import_images(
            database, images, pycolmap.CameraMode.SINGLE, group["names"], reader_options(group, settings)
        )
    options = pycolmap.FeatureExtractionOptions()
    put(options, "use_gpu", settings["gpu"])
    put(options, "max_image_size", settings["size"])
    put(options, "sift.max_num_features", settings["features"])
    for path in ("sift.estimate_affine_shape", "sift.domain_size_pooling"):
        put(options, path, settings["thorough"])
    device = pycolmap.Device.auto if settings["gpu"] else pycolmap.Device.cpu
    with Counted(database, "keypoints"):
        for group in settings["groups"]:
            pycolmap.extract_features(
                database_path=database,
                image_path=images,
                image_names=group["names"],
                camera_mode=pycolmap.CameraMode.SINGLE,
                reader_options=reader_options(group, settings),
                extraction_options=options,
                device=device,
            )


def matches(settings):
    options = pycolmap.FeatureMatchingOptions()
    put(options, "use_gpu", settings["gpu"])
    put(options, "guided_matching", settings["guided"])
    pairing = pycolmap.ImportedPairingOptions()
    put(pairing, "match_list_path", settings["pairs"])
    verification = pycolmap.TwoViewGeometryOptions()
    put(verification, "ransac.random_seed", settings["seed"])
    device = pycolmap.Device.auto if settings["gpu"] else pycolmap.Device.cpu
    with Counted(settings["database"], "two_view_geometries"):
        pycolmap.match_image_pairs(
            settings["database"],
            matching_options=options,
            pairing_options=pairing,
            verification_options=verification,
            device=device,
        )


def map_photos(settings):
    pycolmap.set_random_seed(settings["seed"])
    os.makedirs(settings["out"], exist_ok=True)
    registered = 0

    def registered_one():
        nonlocal registered
        registered += 1
        say(done=registered)

    if settings["global"]:
        options = pycolmap.GlobalPipelineOptions()
        put(options, "mapper.global_positioning.use_gpu", settings["gpu"])
        put(options, "mapper.bundle_adjustment.ceres.use_gpu", settings["gpu"])
    else:
        options = pycolmap.IncrementalPipelineOptions()
        put(options, "ba_use_gpu", settings["gpu"])
        if settings["snapshots"]:
            put(options, "snapshot_path", settings["snapshots"])
            put(options, "snapshot_frames_freq", settings["interval"])
    for path in ("random_seed", "mapper.random_seed", "triangulation.random_seed"):
        put(options, path, settings["seed"])
    for path in ("num_threads", "mapper.num_threads"):
        put(options, path, settings["threads"])
    put(options, "min_model_size", 3)
    if settings["global"]:
        pycolmap.global_mapping(settings["database"], settings["images"], settings["out"], options)
    else:
        pycolmap.incremental_mapping(
            settings["database"],
            settings["images"],
            settings["out"],
            options,
            initial_image_pair_callback=registered_one,
            next_image_callback=registered_one,
        )


def refine(settings):
    model = pycolmap.Reconstruction(settings["model"])
    options = pycolmap.BundleAdjustmentOptions()
    put(options, "refine_principal_point", False)
    put(options, "min_track_length", 2)
    for path in ("ceres.solver_options.num_threads", "solver_options.num_threads"):
        put(options, path, settings["threads"])
    for path in ("ceres.use_gpu", "use_gpu"):
        put(options, path, settings["gpu"])
    pycolmap.bundle_adjustment(model, options)
    os.makedirs(settings["out"], exist_ok=True)
    model.write(settings["out"])


def register(settings):
    pycolmap.set_random_seed(settings["seed"])
    options = pycolmap.IncrementalPipelineOptions()
    put(options, "ba_use_gpu", settings["gpu"])
    for path in ("random_seed", "mapper.random_seed", "triangulation.random_seed"):
        put(options, path, settings["seed"])
    for path in ("num_threads", "mapper.num_threads"):
        put(options, path, settings["threads"])
    known = pycolmap.Reconstruction(settings["known"])
    pycolmap.triangulate_points(
        known, settings["database"], settings["images"], settings["triangulated"], options=options
    )
    # `mapper` has the option in versions that copy it only from there.
    fixed = [put(options, path, True) for path in ("fix_existing_frames", "mapper.fix_existing_frames")]
    if not any(fixed):
        sys.exit("ERROR: this pycolmap cannot keep known poses: it has no option fix_existing_frames")
    for path in ("constant_cameras", "mapper.constant_cameras"):
        put(options, path, set(settings["fixed_cameras"]))
    put(options, "multiple_models", False)
    registered = 0

    def registered_one():
        nonlocal registered
        registered += 1
        say(done=registered)

    pycolmap.incremental_mapping(
        settings["database"],
        settings["images"],
        settings["out"],
        options,
        input_path=settings["triangulated"],
        next_image_callback=registered_one,
    )


def main():
    stage, path = sys.argv[1:3]
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    {"features": features, "matches": matches, "map": map_photos, "refine": refine, "register": register}[stage](settings)
    say(finished=True)


main()
