"""Solver back ends. Each takes the same rows; none prices a plan."""
