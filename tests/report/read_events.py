"""Prints what TensorBoard's own reader finds in a folder of events, as JSON."""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1])
events.Reload()
tags = events.Tags()
scalars = {
    tag: [[e.step, e.wall_time, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]
}
texts = {
    tag: [[e.step, e.wall_time, e.tensor_proto.string_val[0].decode()] for e in events.Tensors(tag)]
    for tag in tags["tensors"]
    if events.SummaryMetadata(tag).plugin_data.plugin_name == "text"
}
print(json.dumps({"scalars": scalars, "texts": texts}))
