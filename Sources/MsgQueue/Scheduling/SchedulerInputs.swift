/// The scheduler's inputs from the host and its environment: the network, the transport, pauses, the lifecycle, the store's health.
extension Scheduler {
    package mutating func networkChanged(_ network: Network, _ now: Moment) {
        let was = gate.network
        gate.network = network
        gate.attemptOfflineReason = ""
        let returns = network.isOnline && !was.isOnline
        if returns {
            gate.holds.connected(stableAt: now.mono + gate.options.onlineDebounce)
            gate.flights.pace?.restart(at: now.mono)
            prompt.arm()
        } else if network.isOnline {
            gate.holds.endOfflinePause()
            round?.restart()
        } else {
            // The connection had been stable before it was lost.
            if was.isOnline, let stableAt = gate.holds.stableAt, stableAt <= now.mono { networkReturned(at: stableAt) }
            gate.holds.disconnected()
            // Messages that would have been sent directly become part of the backlog.
            lanes.byName.changeAll(LaneChanges(isDisconnected: true))
            round = nil
        }
        lanes.scheduleAll(asBacklog: returns, gate, now)
    }

    /// Computes waits again, after the wall clock was set or the machine resumed from suspend.
    package mutating func clockSet(_ now: Moment) {
        lanes.byName.changeAll(LaneChanges(isClockSet: true))
        lanes.scheduleAll(gate, now)
    }

    /// Notes whether there is a transport, and the limits of its batches if it takes batches.
    package mutating func transportChanged(present: Bool, batches limits: BatchLimits? = nil, _ now: Moment) {
        let isFirst = present && !gate.hasTransport
        gate.flights.limits = limits
        linger.end()
        gate.hasTransport = present
        lanes.scheduleAll(asBacklog: isFirst, gate, now)
    }

    package mutating func closing() { gate.isClosing = true }

    /// Pauses one conversation or (nil) the whole queue: no attempt starts until `resume`. Returns false if it was paused already.
    package mutating func pause(_ conversation: Name?) -> Bool {
        lanes.noteChange()
        if let conversation, !gate.pauses.isRemoving(conversation) { round?.skipPaused(conversation) }
        return gate.pauses.pause(conversation)
    }

    package mutating func resume(_ conversation: Name?, _ now: Moment) -> Bool {
        let (wasPaused, isFree) = gate.pauses.resume(conversation)
        guard wasPaused, isFree else { return wasPaused }
        if conversation == nil { gate.flights.pace?.restart(at: now.mono) } else { round?.restart() }
        trigger(asBacklog: true, now)
        return true
    }

    /// A call deletes the messages of the conversation up to this sequence, in steps. Until `endRemoval` nothing of it starts.
    package mutating func beginRemoval(of conversation: Name, through sequence: Int64) {
        if !gate.pauses.isRemoving(conversation) {
            lanes.noteChange()
            round?.skipPaused(conversation)
        }
        gate.pauses.beginRemoval(of: conversation, through: sequence)
    }

    package mutating func endRemoval(of conversation: Name, _ now: Moment) {
        // It was not paused: its end is no trigger.
        guard gate.pauses.endRemoval(of: conversation) else { return }
        round?.restart()
        lanes.schedule(conversation, gate, now)
    }

    /// A call deletes the unsent messages of one conversation or (nil) of all up to this sequence, in steps. Until `endClear` they count as
    /// gone.
    package mutating func beginClear(of conversation: Name?, through sequence: Int64, _ now: Moment) {
        gate.pauses.beginClear(of: conversation, through: sequence)
        cleared(conversation, now)
    }

    /// `isComplete`: all were deleted. Otherwise those that are left are queued and failed as before.
    package mutating func endClear(of conversation: Name?, isComplete: Bool, _ now: Moment) {
        if gate.pauses.endClear(of: conversation), !isComplete { forgetBacklog(now) }
    }

    package mutating func lifecycleChanged(isInBackground: Bool, _ now: Moment) {
        guard isInBackground != gate.isInBackground else { return }
        gate.isInBackground = isInBackground
        guard !isInBackground else { return lanes.scheduleAll(gate, now) }
        gate.holds.endOfflinePause()
        prompt.arm()
        trigger(asBacklog: !gate.options.sendInBackground, now)
    }

    /// Holds the whole queue until a monotonic time, at a receiver's request. Returns false if it is held longer already.
    @discardableResult
    package mutating func hold(until: Int64, _ now: Moment) -> Bool {
        guard gate.holds.delayed(until: until) else { return false }
        gate.flights.pace?.restart(at: now.mono)
        lanes.scheduleAll(gate, now)
        return true
    }

    /// The store has a backlog at the launch.
    package mutating func openedWithBacklog(_ now: Moment) { gate.flights.pace?.restart(at: now.mono) }

    /// Blocks the conversation behind a failed message, with the option `final_failure = block`.
    package mutating func failed(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        guard gate.blocksOnFailure else { return }
        block(conversation, at: min(gate.blocks[conversation] ?? sequence, sequence), now)
    }

    package func block(of conversation: Name) -> Int64? { gate.blocks[conversation] }

    /// Sets the first failed message of a conversation, which blocks later ones; nil: none does.
    package mutating func block(_ conversation: Name, at sequence: Int64?, _ now: Moment) {
        guard gate.blocks[conversation] != sequence else { return }
        gate.blocks[conversation] = sequence
        lanes.schedule(conversation, gate, now)
    }

    /// Starts nothing before `until` (monotonic), because the store rejected a write.
    package mutating func storageFailed(until: Int64) { gate.storageRetryAt = until }

    package mutating func storageRecovered(_ now: Moment) {
        gate.storageRetryAt = 0
        lanes.scheduleAll(gate, now)
    }
}
