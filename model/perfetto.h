// The part of Perfetto's trace format that a timeline needs: field numbers of its messages (named
// as in its public .proto files) and a writer of packets. It knows neither ranks nor steps.
#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

namespace moetwin::perfetto {

// Field numbers, by message.
constexpr uint32_t kTracePacket = 1;
enum PacketField : uint32_t {
  kTimestamp = 8,
  kSequenceId = 10,
  kTrackEvent = 11,
  kInternedData = 12,
  kSequenceFlags = 13,
  kTrackDescriptor = 60,
};
enum DescriptorField : uint32_t {
  kUuid = 1,
  kName = 2,
  kProcess = 3,
  kThread = 4,
  kParentUuid = 5,
  kCounter = 8,
};
enum ProcessField : uint32_t { kProcessPid = 1, kProcessName = 6 };
enum ThreadField : uint32_t { kThreadPid = 1, kThreadTid = 2, kThreadName = 5 };
enum CounterField : uint32_t { kCounterUnit = 3 };
enum EventField : uint32_t {
  kCategoryIids = 3,
  kType = 9,
  kNameIid = 10,
  kTrackUuid = 11,
  kCounterValue = 30,
  kFlowIds = 47,
  kTerminatingFlowIds = 48,
};
enum InternedField : uint32_t { kEventCategories = 1, kEventNames = 2 };
enum NamedField : uint32_t { kIid = 1, kIidName = 2 };

enum EventType : uint32_t { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounterEvent = 4 };
enum CounterUnit : uint32_t { kCount = 2, kBytes = 3 };
constexpr uint32_t kStateCleared = 1;
constexpr uint32_t kNeedsState = 2;

/// One event on a track. Numbers of names and categories are places in what intern() was given,
/// plus one; 0: none.
struct Event {
  uint64_t time = 0;
  uint64_t track = 0;
  EventType type = kInstant;
  uint32_t name = 0;
  uint32_t category = 0;
  int64_t counter = 0;
  std::vector<uint64_t> flows_out;
  std::vector<uint64_t> flows_in;
};

class Writer {
 public:
  explicit Writer(std::string& out) : trace_(out) {}

  /// First of all: the names and categories that events refer to.
  void intern(const std::vector<std::string>& names, const std::vector<std::string>& categories) {
    protozero::pbf_writer packet = begin_packet(kStateCleared);
    protozero::pbf_writer interned(packet, kInternedData);
    const auto add = [&](uint32_t field, const std::vector<std::string>& texts) {
      for (size_t i = 0; i < texts.size(); ++i) {
        protozero::pbf_writer entry(interned, field);
        entry.add_uint64(kIid, i + 1);
        entry.add_string(kIidName, texts[i]);
      }
    };
    add(kEventCategories, categories);
    add(kEventNames, names);
  }

  void process(uint64_t track, int32_t pid, const std::string& name) {
    protozero::pbf_writer packet = begin_packet(kNeedsState);
    protozero::pbf_writer descriptor(packet, kTrackDescriptor);
    descriptor.add_uint64(kUuid, track);
    protozero::pbf_writer process(descriptor, kProcess);
    process.add_int32(kProcessPid, pid);
    process.add_string(kProcessName, name);
  }

  void thread(uint64_t track, int32_t pid, int32_t tid, const std::string& name) {
    protozero::pbf_writer packet = begin_packet(kNeedsState);
    protozero::pbf_writer descriptor(packet, kTrackDescriptor);
    descriptor.add_uint64(kUuid, track);
    protozero::pbf_writer thread(descriptor, kThread);
    thread.add_int32(kThreadPid, pid);
    thread.add_int32(kThreadTid, tid);
    thread.add_string(kThreadName, name);
  }

  void counter(uint64_t track, uint64_t parent, const std::string& name, CounterUnit unit) {
    protozero::pbf_writer packet = begin_packet(kNeedsState);
    protozero::pbf_writer descriptor(packet, kTrackDescriptor);
    descriptor.add_uint64(kUuid, track);
    descriptor.add_string(kName, name);
    descriptor.add_uint64(kParentUuid, parent);
    protozero::pbf_writer counter(descriptor, kCounter);
    counter.add_enum(kCounterUnit, static_cast<int32_t>(unit));
  }

  void event(const Event& e) {
    protozero::pbf_writer packet = begin_packet(kNeedsState);
    packet.add_uint64(kTimestamp, e.time);
    protozero::pbf_writer event(packet, kTrackEvent);
    event.add_enum(kType, static_cast<int32_t>(e.type));
    event.add_uint64(kTrackUuid, e.track);
    if (e.category != 0) event.add_uint64(kCategoryIids, e.category);
    if (e.name != 0) event.add_uint64(kNameIid, e.name);
    if (e.type == kCounterEvent) event.add_int64(kCounterValue, e.counter);
    for (const uint64_t flow : e.flows_out) event.add_fixed64(kFlowIds, flow);
    for (const uint64_t flow : e.flows_in) event.add_fixed64(kTerminatingFlowIds, flow);
  }

 private:
  protozero::pbf_writer begin_packet(uint32_t flags) {
    protozero::pbf_writer packet(trace_, kTracePacket);
    packet.add_uint32(kSequenceId, 1);
    packet.add_uint32(kSequenceFlags, flags);
    return packet;
  }

  protozero::pbf_writer trace_;
};

}  // namespace moetwin::perfetto
