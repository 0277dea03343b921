"""The one place where names become objects: settings, their sources, the catalogue, and the builder."""
