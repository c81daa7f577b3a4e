"""What Mind's launchers start on a node: trainings and evaluations, by the libraries of the field."""
