"""The interface of a backend, and what every backend reports of a run."""
