from hypothesis import HealthCheck, settings

# The same examples in every run: a failure is found again by running the test again.
settings.register_profile(
    "heirloom",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("heirloom")
