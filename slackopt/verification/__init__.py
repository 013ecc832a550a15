"""`verify`: an independent check of every claim in a result; knows no solver.

Read `slackopt.verification.fields` first: what is said of each field. The claims are checked by
topic: `plan_claims`, `bound_claims`, `status_claims`, `run_claims`. `slackopt.verification.vipr`
writes the claim about the bound for a checker that is not ours.
"""

from slackopt.verification.fields import FIELDS, FieldCheck
from slackopt.verification.findings import Verification
from slackopt.verification.verify import verify

__all__ = ["FIELDS", "FieldCheck", "Verification", "verify"]
