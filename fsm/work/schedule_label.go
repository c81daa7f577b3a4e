package work

// ScheduleLabel is the label with the name of the schedule that submitted a job.
const ScheduleLabel = "schedule"
