"""The tables and figures of the paper, run again: recipes, the runs that they need, and what came out beside what was published."""
