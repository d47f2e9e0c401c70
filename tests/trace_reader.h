// Reads a timeline back: as much of Perfetto's format as the tests look at.
#pragma once

#include <cstdint>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "model/perfetto.h"

namespace moetwin {

struct ShownEvent {
  uint64_t time = 0;
  uint64_t track = 0;
  uint32_t type = 0;
  std::string name;
  std::string category;
  int64_t counter = 0;
  std::vector<uint64_t> flows_out;
  std::vector<uint64_t> flows_in;
};

struct ShownTrack {
  std::string process;
  std::string thread;
  std::string counter;
  int32_t pid = 0;
  int32_t tid = 0;
  uint64_t parent = 0;
};

struct ShownTrace {
  std::map<uint64_t, ShownTrack> tracks;
  std::vector<ShownEvent> events;

  uint64_t counter_track(uint32_t rank, const std::string& name) const {
    for (const auto& [id, track] : tracks)
      if (track.counter == name &&
          tracks.at(track.parent).process == "rank " + std::to_string(rank))
        return id;
    return 0;
  }
};

inline std::map<uint64_t, std::string> read_names(protozero::pbf_reader message, uint32_t field) {
  std::map<uint64_t, std::string> names;
  while (message.next(field)) {
    protozero::pbf_reader entry = message.get_message();
    uint64_t iid = 0;
    std::string name;
    while (entry.next())
      if (entry.tag() == perfetto::kIid)
        iid = entry.get_uint64();
      else if (entry.tag() == perfetto::kIidName)
        name = entry.get_string();
      else
        entry.skip();
    names[iid] = name;
  }
  return names;
}

inline void read_track(protozero::pbf_reader message, ShownTrace& trace) {
  uint64_t id = 0;
  ShownTrack track;
  while (message.next()) switch (message.tag()) {
      case perfetto::kUuid:
        id = message.get_uint64();
        break;
      case perfetto::kName:
        track.counter = message.get_string();
        break;
      case perfetto::kParentUuid:
        track.parent = message.get_uint64();
        break;
      case perfetto::kProcess: {
        protozero::pbf_reader process = message.get_message();
        while (process.next())
          if (process.tag() == perfetto::kProcessPid)
            track.pid = process.get_int32();
          else if (process.tag() == perfetto::kProcessName)
            track.process = process.get_string();
          else
            process.skip();
        break;
      }
      case perfetto::kThread: {
        protozero::pbf_reader thread = message.get_message();
        while (thread.next())
          if (thread.tag() == perfetto::kThreadPid)
            track.pid = thread.get_int32();
          else if (thread.tag() == perfetto::kThreadTid)
            track.tid = thread.get_int32();
          else if (thread.tag() == perfetto::kThreadName)
            track.thread = thread.get_string();
          else
            thread.skip();
        break;
      }
      default:
        message.skip();
    }
  trace.tracks[id] = track;
}

inline ShownTrace read_trace(const std::string& bytes) {
  ShownTrace trace;
  std::map<uint64_t, std::string> names;
  std::map<uint64_t, std::string> categories;
  protozero::pbf_reader file(bytes);
  while (file.next(perfetto::kTracePacket)) {
    protozero::pbf_reader packet = file.get_message();
    ShownEvent e;
    bool is_event = false;
    while (packet.next()) switch (packet.tag()) {
        case perfetto::kTimestamp:
          e.time = packet.get_uint64();
          break;
        case perfetto::kInternedData: {
          const protozero::pbf_reader interned = packet.get_message();
          names = read_names(interned, perfetto::kEventNames);
          categories = read_names(interned, perfetto::kEventCategories);
          break;
        }
        case perfetto::kTrackDescriptor:
          read_track(packet.get_message(), trace);
          break;
        case perfetto::kTrackEvent: {
          is_event = true;
          protozero::pbf_reader event = packet.get_message();
          while (event.next()) switch (event.tag()) {
              case perfetto::kType:
                e.type = static_cast<uint32_t>(event.get_enum());
                break;
              case perfetto::kTrackUuid:
                e.track = event.get_uint64();
                break;
              case perfetto::kNameIid:
                e.name = names.at(event.get_uint64());
                break;
              case perfetto::kCategoryIids:
                e.category = categories.at(event.get_uint64());
                break;
              case perfetto::kCounterValue:
                e.counter = event.get_int64();
                break;
              case perfetto::kFlowIds:
                e.flows_out.push_back(event.get_fixed64());
                break;
              case perfetto::kTerminatingFlowIds:
                e.flows_in.push_back(event.get_fixed64());
                break;
              default:
                event.skip();
            }
          break;
        }
        default:
          packet.skip();
      }
    if (is_event) trace.events.push_back(e);
  }
  return trace;
}

}  // namespace moetwin
