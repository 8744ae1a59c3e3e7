"""The filter: one object with three verbs, check, learn and unlearn. All doors use it and nothing below it.

Rules: check touches no network; learn and unlearn return only when the change is durable in Redis and this
process's own mirror has it; both may be repeated, the second time changes nothing and says so.
"""

from nbstream.filter.autolearner import AutoLayer, Autolearner, Settler
from nbstream.filter.check_queue import Line
from nbstream.filter.filter import Decide, Filter, Subject
from nbstream.filter.lesson_plan import Taught
from nbstream.filter.lesson_text import tell, tell_counted, tell_many
from nbstream.filter.observers import Remembering, Several
from nbstream.filter.protocols import CountSource, Observer, Recalling, Silent, Teachable
from nbstream.filter.results import Check, Lesson, Outcome, Params

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
