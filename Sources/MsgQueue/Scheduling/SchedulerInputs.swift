/// The scheduler's inputs from the host and its environment: the network, the transport, pauses, the lifecycle, the store's health.
extension Scheduler {
    package mutating func networkChanged(_ network: Network, _ now: Moment) {
        let was = self.network
        self.network = network
        attemptOfflineReason = ""
        if network.isOnline, !was.isOnline {
            beginBacklog()
            holds.connected(stableAt: now.mono + onlineDebounce)
            pace?.restart(at: now.mono)
            armPrompt()
        } else if network.isOnline {
            holds.endOfflinePause()
            round?.restart()
        } else {
            // The connection had been stable before it was lost.
            if was.isOnline, let stableAt = holds.stableAt, stableAt <= now.mono { networkReturned(at: stableAt) }
            holds.disconnected()
            // Messages that would have been sent directly become part of the backlog.
            forEachLane { lane in
                lane.closeDirectRange()
                (lane.approved, lane.approvedThrough) = ([], 0)
            }
            round = nil
        }
        scheduleAll(now)
    }

    /// Computes waits again, after the wall clock was set or the machine resumed from suspend.
    package mutating func clockSet(_ now: Moment) { scheduleAll(now) }

    /// Notes whether there is a transport, and the limits of its batches if it takes batches.
    package mutating func transportChanged(present: Bool, batches limits: BatchLimits? = nil, _ now: Moment) {
        if present, !hasTransport { beginBacklog() }
        (self.limits, lingerUntil) = (limits, 0)
        hasTransport = present
        scheduleAll(now)
    }

    package mutating func closing() { isClosing = true }

    /// Pauses one conversation or (nil) the whole queue: no attempt starts until `resume`. Returns false if it was paused already.
    package mutating func pause(_ conversation: Name?, _ now: Moment) -> Bool {
        promptWatch.changed()
        if let conversation {
            if let removal = removals[conversation] {
                removals[conversation]?.isPausedAfterwards = true
                return !removal.isPausedAfterwards
            }
            round?.skipPaused(conversation)
            return pausedConversations.insert(conversation).inserted
        }
        defer { isPaused = true }
        return !isPaused
    }

    /// Whether somebody paused this conversation, which may be held by a removal as well.
    package func isPaused(byName conversation: Name) -> Bool {
        removals[conversation]?.isPausedAfterwards ?? pausedConversations.contains(conversation)
    }

    /// The conversations that somebody paused, without those that are only held by a removal.
    package var conversationsPausedByName: Set<Name> {
        removals.isEmpty ? pausedConversations : pausedConversations.filter(isPaused(byName:))
    }

    package mutating func resume(_ conversation: Name?, _ now: Moment) -> Bool {
        let was: Bool
        if let conversation {
            if let removal = removals[conversation] {
                removals[conversation]?.isPausedAfterwards = false
                return removal.isPausedAfterwards
            }
            was = pausedConversations.remove(conversation) != nil
            if was { round?.restart() }
        } else {
            was = isPaused
            isPaused = false
            if was { pace?.restart(at: now.mono) }
        }
        if was {
            beginBacklog()
            trigger(now)
        }
        return was
    }

    /// A call deletes the messages of the conversation up to this sequence, in steps. Until `endRemoval` nothing of it starts.
    package mutating func beginRemoval(of conversation: Name, through sequence: Int64, _ now: Moment) {
        var removal = removals[conversation] ?? Removal(isPausedAfterwards: !pause(conversation, now))
        removal.calls &+= 1
        removal.through = max(removal.through, sequence)
        removals[conversation] = removal
    }

    package mutating func endRemoval(of conversation: Name, _ now: Moment) {
        guard var removal = removals[conversation] else { return }
        removal.calls &-= 1
        removals[conversation] = removal.calls > 0 ? removal : nil
        guard removal.calls == 0, !removal.isPausedAfterwards else { return }
        // It was not paused: its end is no trigger.
        pausedConversations.remove(conversation)
        round?.restart()
        schedule(conversation, now)
    }

    /// A call deletes the unsent messages of one conversation or (nil) of all up to this sequence, in steps. Until `endClear` they count as
    /// gone.
    package mutating func beginClear(of conversation: Name?, through sequence: Int64, _ now: Moment) {
        var clear = clears[conversation] ?? Clear()
        clear.calls &+= 1
        clear.through = max(clear.through, sequence)
        clears[conversation] = clear
        cleared(conversation, now)
    }

    /// `isComplete`: all were deleted. Otherwise those that are left are queued and failed as before.
    package mutating func endClear(of conversation: Name?, isComplete: Bool, _ now: Moment) {
        guard var clear = clears[conversation] else { return }
        clear.calls &-= 1
        clears[conversation] = clear.calls > 0 ? clear : nil
        if !isComplete { forgetBacklog(now) }
    }

    /// Unsent messages of all conversations up to this sequence are being deleted; 0: none are.
    var clearedThrough: Int64 { clears.isEmpty ? 0 : clears[nil]?.through ?? 0 }

    /// Unsent messages of this conversation up to this sequence are being deleted; 0: none are.
    package func clearedThrough(_ conversation: Name) -> Int64 {
        clears.isEmpty ? 0 : max(clearedThrough, clears[conversation]?.through ?? 0)
    }

    /// Whether a call is deleting this message. `isUnsent`: it is queued or failed, and not being sent.
    package func isBeingRemoved(_ sequence: Int64, _ conversation: Name, isUnsent: Bool) -> Bool {
        if let removal = removals[conversation], sequence <= removal.through { return true }
        return isUnsent && sequence <= clearedThrough(conversation)
    }

    package mutating func lifecycleChanged(isInBackground: Bool, _ now: Moment) {
        guard isInBackground != self.isInBackground else { return }
        self.isInBackground = isInBackground
        guard !isInBackground else { return scheduleAll(now) }
        holds.endOfflinePause()
        armPrompt()
        if !sendsInBackground { beginBacklog() }
        trigger(now)
    }

    /// Holds the whole queue until a monotonic time, at a receiver's request. Returns false if it is held longer already.
    @discardableResult
    package mutating func hold(until: Int64, _ now: Moment) -> Bool {
        guard holds.delayed(until: until) else { return false }
        pace?.restart(at: now.mono)
        scheduleAll(now)
        return true
    }

    /// The store has a backlog at the launch.
    package mutating func openedWithBacklog(_ now: Moment) { pace?.restart(at: now.mono) }

    /// Blocks the conversation behind a failed message, with the option `final_failure = block`.
    package mutating func failed(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        guard blocksOnFailure else { return }
        block(conversation, at: min(blocks[conversation] ?? sequence, sequence), now)
    }

    package var blockedConversations: [Name] { Array(blocks.keys) }

    package func block(of conversation: Name) -> Int64? { blocks[conversation] }

    /// Sets the first failed message of a conversation, which blocks later ones; nil: none does.
    package mutating func block(_ conversation: Name, at sequence: Int64?, _ now: Moment) {
        guard blocks[conversation] != sequence else { return }
        blocks[conversation] = sequence
        schedule(conversation, now)
    }

    /// Starts nothing before `until` (monotonic), because the store rejected a write.
    package mutating func storageFailed(until: Int64) { storageRetryAt = until }

    package mutating func storageRecovered(_ now: Moment) {
        storageRetryAt = 0
        scheduleAll(now)
    }
}
