"""What a backend is, and what every backend tells of a run."""
