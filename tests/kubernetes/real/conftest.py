"""Behind each test's name: how long it took, and what it tells."""


def pytest_report_teststatus(report):
    if report.when == "call" and report.passed:
        told = dict(report.user_properties).get("told")
        return "passed", ".", f"ok, {report.duration:.1f} s" + (f": {told}" if told else "")
    return None
