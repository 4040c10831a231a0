"""What can be done with experiments, as functions: run, compare, sweep, reproduce, report. Commands call them."""
