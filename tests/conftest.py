"""For all tests: Ctrl-C reaches the processes that they start, also under nohup or in background.

A shell starts such jobs with SIGINT ignored, and children inherit that.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
