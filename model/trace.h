// The timeline of a run: one Perfetto trace from the events that a machine logged, the same for
// every machine. Process: rank; thread: SM and role; slices: waits and products, named as the
// protocol names its steps; arrows: from an arrival to the wait that it ended, and from a copy's
// issue to the wait that saw it land; counters of each rank: occupied ring slots, bytes in flight,
// tokens done. It owns the drawing and the file, not the events.
#pragma once

#include <string>
#include <vector>

#include "common/machine.h"
#include "common/trace_event.h"

namespace moetwin {

/// The bytes of a trace file (a perfetto.protos.Trace). `launches` are the arguments of each launch
/// of the case, all with the same ranks and SMs; `events` stand in an order in which each is behind
/// what caused it, and those of one agent in the order in which it logged them.
///
/// A landing is drawn where the first wait saw it: that is what a card can tell. On each track time
/// never goes back, and no arrow points back; events that say otherwise are moved up.
std::string encode_trace(const std::vector<KernelArgs>& launches,
                         const std::vector<TraceEvent>& events);

/// Writes it to `path`. Throws InputError where the file cannot be written.
void write_trace(const std::string& path, const std::vector<KernelArgs>& launches,
                 const std::vector<TraceEvent>& events);

}  // namespace moetwin
