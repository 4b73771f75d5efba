"""Lists what a release consists of: manifest, bill of materials, checksums."""
