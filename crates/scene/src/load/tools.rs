//! Pose files of other tools, and the conversion of each to a capture.

/// A tool whose captures Dapple does not read.
pub(super) struct Tool {
    pub name: &'static str,
    /// Patterns of names in lower case that must all match; the error names the first.
    pub files: &'static [&'static str],
    /// Words of which the first file contains one; empty if the names are sufficient.
    pub content: &'static [&'static str],
    /// True if the first file alone identifies the tool.
    pub is_told_by_first: bool,
    pub way_in: &'static str,
}

const fn tool(
    name: &'static str,
    files: &'static [&'static str],
    content: &'static [&'static str],
    way_in: &'static str,
) -> Tool {
    Tool {
        name,
        files,
        content,
        is_told_by_first: false,
        way_in,
    }
}

/// Returns the tool with the first file as sufficient, if the user names that file.
const fn told_by_first(mut tool: Tool) -> Tool {
    tool.is_told_by_first = true;
    tool
}

const POSES_ANEW: &str = "find the poses of the photos with COLMAP (`colmap automatic_reconstructor`), or write them as a \
                          transforms.json";

/// All tools; specific rows come before less specific ones.
pub(super) const TOOLS: &[Tool] = &[
    told_by_first(tool(
        "a 3DGS trainer's output folder",
        &["cfg_args", "point_cloud"],
        &[],
        "`dapple view`, `info` and `convert` read the splats in point_cloud/iteration_*/point_cloud.ply; to train, name \
         the capture that source_path in cfg_args names",
    )),
    tool(
        "a 3DGS trainer",
        &["cameras.json"],
        &["\"img_name\""],
        "to train, name the capture that these cameras were read from (source_path in cfg_args), or write a transforms.json",
    ),
    tool(
        "LLFF",
        &["**/poses_bounds*.npy"],
        &[],
        "LLFF's captures come with the COLMAP model that they were made from: copy its sparse/0 too, or find the poses \
         again with COLMAP (`colmap automatic_reconstructor`)",
    ),
    tool(
        "OpenDroneMap",
        &["**/reconstruction*.json", "odm_*"],
        &[],
        "`ns-process-data odm --data PROJECT --output-dir OUT` (Nerfstudio) writes a transforms.json",
    ),
    tool(
        "OpenSfM",
        &["**/reconstruction*.json"],
        &["\"shots\"", "\"cameras\""],
        "`opensfm export_colmap DATASET` writes a COLMAP model",
    ),
    tool(
        "OpenSfM",
        &["**/camera_models.json"],
        &[],
        "`opensfm reconstruct DATASET`, then `opensfm export_colmap DATASET` writes a COLMAP model",
    ),
    tool(
        "OpenMVG",
        &["**/sfm_data*.json"],
        &[],
        "`openMVG_main_openMVG2Colmap -i sfm_data.json -o sparse/0` writes a COLMAP model",
    ),
    tool(
        "OpenMVG",
        &["**/sfm_data*.bin"],
        &[],
        "`openMVG_main_openMVG2Colmap -i sfm_data.bin -o sparse/0` writes a COLMAP model",
    ),
    tool(
        "Meshroom (AliceVision)",
        &["**/*.sfm"],
        &[],
        "`aliceVision_exportColmap -i cameras.sfm -o OUT` (Meshroom's node ExportColmap) writes a COLMAP model",
    ),
    tool(
        "Meshroom (AliceVision)",
        &["**/*.mg"],
        &[],
        "add the node ExportColmap in Meshroom: it writes a COLMAP model",
    ),
    tool(
        "Record3D",
        &["**/metadata", "**/rgb"],
        &["\"poses\"", "\"K\""],
        "`ns-process-data record3d --data FOLDER --output-dir OUT` (Nerfstudio) writes a transforms.json",
    ),
    tool(
        "Record3D",
        &["**/metadata.json"],
        &["\"poses\"", "\"K\"", "\"perFrameIntrinsicCoeffs\""],
        "`ns-process-data record3d --data FOLDER --output-dir OUT` (Nerfstudio) writes a transforms.json",
    ),
    tool(
        "Record3D",
        &["**/*.r3d"],
        &[],
        "export from Record3D as EXR + RGBD, then `ns-process-data record3d --data FOLDER --output-dir OUT` (Nerfstudio)",
    ),
    tool(
        "Polycam",
        &["**/mesh_info.json"],
        &[],
        "`ns-process-data polycam --data FOLDER --output-dir OUT` (Nerfstudio) writes a transforms.json",
    ),
    tool(
        "Polycam",
        &["keyframes/*cameras"],
        &[],
        "`ns-process-data polycam --data FOLDER --output-dir OUT` (Nerfstudio) writes a transforms.json",
    ),
    tool(
        "Polycam",
        &["corrected_cameras"],
        &[],
        "`ns-process-data polycam --data FOLDER --output-dir OUT` (Nerfstudio) takes the folder that keyframes/ is in",
    ),
    tool(
        "Stray Scanner",
        &["**/odometry.csv"],
        &[],
        "StrayVisualizer and community scripts write a transforms.json from odometry.csv and camera_matrix.csv; or take \
         frames from rgb.mp4 (`ffmpeg -i rgb.mp4 -vf fps=2 images/%04d.jpg`) and find their poses with COLMAP",
    ),
    tool(
        "DTU, IDR or NeuS",
        &["**/cameras*.npz"],
        &[],
        "the world_mat of each photo is K [R|t]: write K and poses as a transforms.json, or find the poses again with \
         COLMAP (`colmap automatic_reconstructor`)",
    ),
    tool(
        "NSVF",
        &["pose", "intrinsics.txt"],
        &[],
        "the files in pose/ are camera-to-world matrices with axes right, down, forward: write them as a \
         transforms.json (its second and third column change sign), or find the poses again with COLMAP",
    ),
    tool(
        "NSVF",
        &["pose/*.txt", "rgb"],
        &[],
        "the files in pose/ are camera-to-world matrices with axes right, down, forward: write them as a \
         transforms.json (its second and third column change sign), or find the poses again with COLMAP",
    ),
    tool(
        "ScanNet",
        &["pose/*.txt", "color"],
        &[],
        "the files in pose/ are camera-to-world matrices with axes right, down, forward: write them as a \
         transforms.json (its second and third column change sign), or find the poses again with COLMAP",
    ),
    tool(
        "ScanNet",
        &["**/*.sens"],
        &[],
        "extract photos and poses with ScanNet's SensReader, then write a transforms.json",
    ),
    tool("7-Scenes", &["**/*.pose.txt"], &[], POSES_ANEW),
    tool("MVSNet", &["**/*_cam.txt"], &[], POSES_ANEW),
    tool(
        "Tanks and Temples",
        &["**/*.log"],
        &["0 0 0\n", "0\t0\t"],
        POSES_ANEW,
    ),
    tool(
        "TUM RGB-D",
        &["**/groundtruth.txt", "**/rgb.txt"],
        &[],
        POSES_ANEW,
    ),
    tool("Replica", &["**/traj.txt"], &[], POSES_ANEW),
    tool("KITTI", &["**/calib.txt", "**/poses.txt"], &[], POSES_ANEW),
    tool(
        "Agisoft Metashape",
        &["**/*.psx"],
        &[],
        "export from Metashape: File > Export > Export Cameras as COLMAP; or export XML and use `ns-process-data \
         metashape --data PHOTOS --xml cameras.xml --output-dir OUT` (Nerfstudio)",
    ),
    tool(
        "Agisoft Metashape",
        &["**/*.psz"],
        &[],
        "export from Metashape: File > Export > Export Cameras as COLMAP; or export XML and use `ns-process-data \
         metashape --data PHOTOS --xml cameras.xml --output-dir OUT` (Nerfstudio)",
    ),
    tool(
        "ContextCapture (BlocksExchange)",
        &["**/*.xml"],
        &["<BlocksExchange"],
        "import it into RealityCapture or Metashape and export a COLMAP model from there",
    ),
    tool(
        "Agisoft Metashape",
        &["**/*.xml"],
        &["<document", "<chunk", "<sensors"],
        "export from Metashape: File > Export > Export Cameras as COLMAP; or use `ns-process-data metashape --data PHOTOS \
         --xml cameras.xml --output-dir OUT` (Nerfstudio)",
    ),
    tool(
        "RealityCapture",
        &["**/*.csv"],
        &["#name,x,y,", "#cameras", "#name,", "name,x,y,alt"],
        "export from RealityCapture (RealityScan) as COLMAP, or use `ns-process-data realitycapture --data PHOTOS --csv \
         FILE.csv --output-dir OUT` (Nerfstudio)",
    ),
    tool(
        "RealityCapture",
        &["**/*.rcproj"],
        &[],
        "export from RealityCapture (RealityScan): registration as COLMAP, and the undistorted photos",
    ),
    tool(
        "RealityCapture",
        &["**/*.xmp"],
        &["xcr:Rotation", "xcr:Position"],
        "export from RealityCapture (RealityScan) as COLMAP instead of XMP files",
    ),
    tool(
        "Pix4D",
        &["**/*_calibrated_external_camera_parameters.txt"],
        &[],
        "undistort and export as COLMAP or Bundler in PIX4D, or find the poses again with COLMAP",
    ),
    tool("Pix4D", &["**/*_pmatrix.txt"], &[], POSES_ANEW),
    tool("Pix4D", &["**/*.p4d"], &[], POSES_ANEW),
    tool(
        "Bundler",
        &["**/bundle*.out"],
        &[],
        "export a COLMAP model from the program that wrote it (most write both), or find the poses again with COLMAP",
    ),
    tool(
        "VisualSFM",
        &["**/*.nvm"],
        &[],
        "find the poses again with COLMAP (`colmap automatic_reconstructor`), or import the file into a program that \
         exports COLMAP models",
    ),
    tool(
        "OpenMVS",
        &["**/*.mvs"],
        &[],
        "`InterfaceCOLMAP -i scene.mvs -o OUT` (OpenMVS) writes a COLMAP model",
    ),
    tool(
        "3D Scanner App",
        &["**/frame_*.json"],
        &["projectionMatrix", "cameraPoseARFrame"],
        "cameraPoseARFrame is a camera-to-world matrix with OpenGL's axes, as transform_matrix in a transforms.json: write \
         one with the frames' intrinsics, or find the poses again with COLMAP",
    ),
    tool(
        "Nerfstudio's training",
        &["**/dataparser_transforms.json"],
        &[],
        "this is the folder of a run: `ns-export gaussian-splat --load-config config.yml --output-dir OUT` exports its \
         splats; to train, name the capture that config.yml names",
    ),
    tool(
        "COLMAP (a database without a model)",
        &["**/database*.db"],
        &[],
        "the poses are not found yet: `mkdir -p sparse && colmap mapper --database_path database.db --image_path images \
         --output_path sparse`",
    ),
];
