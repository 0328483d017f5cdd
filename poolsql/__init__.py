"""A pool of long-lived browser profiles on Postgres."""
