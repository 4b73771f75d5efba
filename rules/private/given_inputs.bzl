"""Files with inputs of a model, for its expected outputs: arrays, images, sound."""

# As `IMAGES` in tools/etlower/given_images.py.
_IMAGES = ("bmp", "gif", "jpeg", "jpg", "png", "ppm", "tif", "tiff", "webp")
_PACKAGES = Label("@executorch_cli//:packages")

PREPROCESSING_DOC = ("How images become inputs, by the names of Hugging Face's preprocessor_config.json: \"size\" " +
                     "and \"crop_size\" (\"224\": of the shorter edge and of the square; \"240 320\": height and " +
                     "width), \"rescale_factor\" (default: 1/255), \"image_mean\" and \"image_std\" (\"0.5 0.5 0.5\"). " +
                     "Default: the size of the example input, from 0 to 1.")

def image_packages(labels):
    """Finds what reads images, so that it is fetched only where some are listed, or a folder or rule that may have some.

    Args:
      labels: list of Labels, for a computed default.

    Returns:
      Label of an et_packages with Pillow, or None.
    """
    for label in labels or []:
        name = label.name.rpartition("/")[2]
        if "." not in name or name.rpartition(".")[2].lower() in _IMAGES:
            return _PACKAGES
    return None

def input_flags(files, preprocessing):
    """Lists the flags that name inputs; tools/etlower/flags.py reads them.

    Args:
      files: list of Files.
      preprocessing: dict of strings, for images.

    Returns:
      List of pairs (format, value), for `exporter_action`.
    """
    flags = [("--test_input=%s", file) for file in files]
    if preprocessing:
        flags.append(("--preprocessing=%s", json.encode(preprocessing)))
    return flags
