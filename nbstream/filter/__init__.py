"""The filter: one object with three verbs, check, learn and unlearn. All doors use it and nothing below it.

Rules: check touches no network; learn and unlearn return only when the change is durable in Redis and this
process's own mirror has it; both may be repeated, the second time changes nothing and says so.
"""

from nbstream.filter.autolearning import AutoLayer, Autolearner, Settler
from nbstream.filter.contracts import CountSource, Observer, Recalling, Silent, Teachable
from nbstream.filter.line import Line
from nbstream.filter.observers import Remembering, Several
from nbstream.filter.results import Check, Lesson, Outcome, Params
from nbstream.filter.steps import Taught
from nbstream.filter.telling import tell, tell_counted, tell_many
from nbstream.filter.verbs import Decide, Filter, Subject

__all__ = [
    "AutoLayer",
    "Autolearner",
    "Check",
    "CountSource",
    "Decide",
    "Filter",
    "Lesson",
    "Line",
    "Observer",
    "Outcome",
    "Params",
    "Recalling",
    "Remembering",
    "Settler",
    "Several",
    "Silent",
    "Subject",
    "Taught",
    "Teachable",
    "tell",
    "tell_counted",
    "tell_many",
]
