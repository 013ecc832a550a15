"""Graphs from traces and tables that people already have, and back."""

from slackopt.profiles.traces.detect import FORMATS as TRACE_FORMATS
from slackopt.profiles.traces.detect import detect_format
from slackopt.profiles.traces.export import EXPORT_FORMATS, export_graph
from slackopt.profiles.traces.read import read_trace

__all__ = ["EXPORT_FORMATS", "TRACE_FORMATS", "detect_format", "export_graph", "read_trace"]
