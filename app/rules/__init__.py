"""Third floor: rule files: schema, loading, compiling and matching."""
