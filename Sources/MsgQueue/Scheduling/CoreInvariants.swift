/// What always holds between two inputs. The numbers are those of the list of invariants in Sources/README.md.
extension Core {
    /// Returns the first invariant that does not hold, for an assertion; nil: all hold.
    package var brokenInvariant: String? {
        let open = Array(scheduler.gate.flights.open)
        if open.count != rowsInFlight.count || !open.allSatisfy({ rowsInFlight[$0.token] != nil }) {
            return "INV-1: the rows in flight are not those of the attempts without an outcome"
        }
        if (prompt != nil) != (scheduler.prompt.phase == .raised) { return "INV-2: the prompt is open in one place only" }
        return scheduler.brokenInvariant
    }
}

extension Scheduler {
    fileprivate var brokenInvariant: String? {
        for flight in gate.flights.values where lanes[flight.conversation]?.hasFlight(flight.token) != true {
            return "INV-3: the lane of attempt \(flight.number) of message \(flight.sequence) does not have it"
        }
        if session == nil, !gate.drains.pending.isEmpty { return "INV-5: a drain waits although none is running" }
        if !gate.pauses.removals.keys.allSatisfy(gate.pauses.conversations.contains) {
            return "INV-6: a conversation is being deleted and not held"
        }
        if requests.count > 1, Set(requests.entries.map(\.sequence)).count < requests.count {
            return "INV-7: a message has two manual requests"
        }
        return lanes.byName.first { name, lane in brokenInvariant(of: lane, name) }
    }

    private func brokenInvariant(of lane: Lane, _ conversation: Name) -> String? {
        for token in lane.tokens where gate.flights[token]?.conversation != conversation || gate.flights[token]?.batch != lane.batch {
            return "INV-4: the attempts of a lane are not of one conversation and one batch"
        }
        var last: Int64 = 0
        for head in lane.upcoming {
            if head.sequence <= last { return "INV-8: the next messages of a lane are not in order" }
            last = head.sequence
        }
        if max(last, lane.deferred.map(\.sequence).max() ?? 0) > lane.last {
            return "INV-9: a lane has a message that counts as not read"
        }
        if !lane.deferred.isEmpty, !Set(lane.upcoming.map(\.sequence)).isDisjoint(with: lane.deferred.map(\.sequence)) {
            return "INV-10: a message of a lane is both next and deferred"
        }
        return nil
    }
}
