"""Settings of the course for nbgrader: what is left out has nbgrader's default."""

c = get_config()  # noqa: F821 (nbgrader provides it)
c.CourseDirectory.course_id = "ibrelu"
# Where `release_assignment` puts a set and `collect` finds the submissions: a folder that the
# students and you can both write to.
c.Exchange.root = "exchange"
# A test never takes longer than a few seconds; an endless loop in a submission ends here.
c.ExecutePreprocessor.timeout = 60
