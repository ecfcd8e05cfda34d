"""Fifth floor: processes, health, guards and reading flag catalogues from installed programs."""
