"""Copies the page that was made from the targets over the one in the sources."""

import os
import shutil
import sys

shutil.copyfile(sys.argv[1], os.environ["BUILD_WORKSPACE_DIRECTORY"] + "/docs/reference/recipes.md")
