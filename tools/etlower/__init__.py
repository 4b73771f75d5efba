"""EtLower: turns a model and a recipe into a lowered program. The only step that needs torch."""
