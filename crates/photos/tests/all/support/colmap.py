#!/usr/bin/env python3
"""Stub of COLMAP: reads its behaviour from files next to it, and writes prepared models."""
import json
import os
import shutil
import sqlite3
import sys
import time

home = os.path.dirname(os.path.abspath(__file__))


def read(name, otherwise):
    path = os.path.join(home, name)
    return open(path, encoding="utf-8").read().strip() if os.path.exists(path) else otherwise


version, mode = read("version", "3.8"), read("mode", "")
command, rest = sys.argv[1], sys.argv[2:]
commands = ["feature_extractor", "matches_importer", "mapper", "bundle_adjuster", "point_triangulator"] + (["global_mapper"] if version >= "4" else [])
if command == "help":
    print(f"COLMAP {version} -- Structure-from-Motion and Multi-View Stereo\n\nAvailable commands:\n  help")
    print("\n".join(f"  {name}" for name in commands if name != mode))
    sys.exit()
thorough = " SiftExtraction.estimate_affine_shape SiftExtraction.domain_size_pooling" if read("thorough", "") else ""
new = "Feature" if version >= "3.12" else "Sift"
kept = "" if mode == "moves poses" else " Mapper.fix_existing_" + ("frames" if version >= "3.12" else "images")
names = {
    "feature_extractor": f"database_path image_path image_list_path ImageReader.single_camera ImageReader.camera_model "
    f"ImageReader.mask_path ImageReader.camera_params {new}Extraction.use_gpu {new}Extraction.max_image_size SiftExtraction.max_num_features{thorough}",
    "matches_importer": f"database_path match_list_path match_type {new}Matching.use_gpu {new}Matching.guided_matching",
    "bundle_adjuster": "input_path output_path",
    "point_triangulator": "database_path image_path input_path output_path clear_points Mapper.num_threads",
    "mapper": "database_path image_path output_path Mapper.num_threads Mapper.min_model_size "
    f"Mapper.snapshot_path Mapper.snapshot_images_freq input_path Mapper.ba_refine_focal_length{kept}",
    "global_mapper": "database_path image_path output_path GlobalMapper.num_threads",
}[command].split()
if rest == ["--help"]:
    print("Options:\n  -h [ --help ]\n" + "\n".join(f"  --{name} arg (=1)" for name in names))
    sys.exit()
options = dict(zip(rest[::2], rest[1::2]))
unknown = [name for name in options if name[2:] not in names]
if unknown:
    sys.exit(f"ERROR: Failed to parse options - unrecognised option '{unknown[0]}'.")
with open(os.path.join(home, "calls"), "a", encoding="utf-8") as calls:
    calls.write(command + "\n")
with open(os.path.join(home, "arguments"), "a", encoding="utf-8") as arguments:
    arguments.write(command + " " + json.dumps(options) + "\n")
if mode == f"crash {command}":
    print("F20260101 12:00:00 feature.cc:17] Check failed: bitmap.Read(path)", file=sys.stderr, flush=True)
    os.abort()
if mode == f"full {command}":
    sys.exit("E20260101 database.cc:80] SQLite error [sqlite3.c, line 1]: database or disk is full")
if mode == f"slow {command}":
    print("Processed file [1/9]", flush=True)
    time.sleep(60)

if command == "bundle_adjuster":
    if mode != "no refinement":
        shutil.copytree(options["--input_path"], options["--output_path"], dirs_exist_ok=True)
    sys.exit(0 if mode != "no refinement" else "ERROR: bundle adjustment failed")

database = sqlite3.connect(options["--database_path"])
database.execute("create table if not exists images (image_id integer primary key, name text, camera_id integer)")
database.execute("create table if not exists keypoints (image_id integer primary key, rows integer, cols integer, data blob)")
database.execute(
    "create table if not exists two_view_geometries (pair_id integer primary key, rows integer, cols integer, data blob, config integer)"
)
if command == "feature_extractor":
    features = json.loads(read("features.json", "{}"))
    for index, name in enumerate(open(options["--image_list_path"], encoding="utf-8").read().split("\n")):
        if not name:
            continue
        assert os.path.exists(os.path.join(options["--image_path"], name)), name
        row = database.execute("insert into images (name, camera_id) values (?, 1)", (name,)).lastrowid
        database.execute("insert into keypoints values (?, ?, 4, ?)", (row, features.get(name, 900), b"\0" * 3000))
        print(f"Processed file [{index + 1}/9]", flush=True)
elif command == "matches_importer":
    ids = dict(database.execute("select name, image_id from images"))
    inliers = {(a, b): n for a, b, n in json.loads(read("pairs.json", "[]"))}
    for line in open(options["--match_list_path"], encoding="utf-8").read().splitlines():
        a, b = line.split(" ")
        count = inliers.get((a, b), 0 if inliers else 100)
        a, b = sorted([ids[a], ids[b]])
        database.execute(
            "insert or replace into two_view_geometries values (?, ?, 2, ?, ?)",
            (a * 2147483647 + b, count, b"\0" * (8 * count), 2 if count else 1),
        )
    print("Matching block [1/1]", flush=True)
elif "--input_path" in options:
    # Photos that are added: the known ones, or a prepared model with more.
    prepared = os.path.join(home, "added")
    is_mapper = command == "mapper" and os.path.isdir(prepared)
    shutil.copytree(prepared if is_mapper else options["--input_path"], options["--output_path"], dirs_exist_ok=True)
else:
    if "--Mapper.snapshot_path" in options:
        for name in ["0000000001", "0000000002"]:
            written, path = os.path.join(home, name), os.path.join(options["--Mapper.snapshot_path"], name)
            shutil.copytree(os.path.join(home, "model0"), written)
            os.rename(written, path)
            # The reader of snapshots must find each, and removes it.
            patience = time.monotonic() + 60
            while os.path.exists(path) and time.monotonic() < patience:
                time.sleep(0.02)
    for index in range(9):
        search = "thorough-" if "/thorough/" in options["--output_path"] else ""
        model = os.path.join(home, f"{search}model{index}")
        if os.path.isdir(model):
            shutil.copytree(model, os.path.join(options["--output_path"], str(index)))
            print("Registering image #1 (2)", flush=True)
    if not os.listdir(options["--output_path"]):
        sys.exit("ERROR: failed to create sparse model")
database.commit()
database.close()
