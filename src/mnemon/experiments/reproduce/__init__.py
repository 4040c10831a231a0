"""The tables and figures of the paper, run again: recipes, their runs, and what came out beside the published."""
