"""What poolsql costs, as ratios within one run against what a user would take instead: ``python -m benchmarks``."""
