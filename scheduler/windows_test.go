package scheduler_test

