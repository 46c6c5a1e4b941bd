"""Transfer: upper bounds on the optimal values of a task, learned from earlier tasks."""
