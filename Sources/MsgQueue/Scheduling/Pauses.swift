/// What is paused, and what calls are deleting.
package struct Pauses {
    /// The whole queue.
    private(set) var isPaused = false
    /// Also those whose messages a call deletes.
    private(set) var conversations: Set<Name> = []
    var removals: [Name: Removal] = [:]
    /// By conversation, nil: all: the calls that delete unsent messages.
    private var clears: [Name?: Clear] = [:]

    /// A conversation whose messages up to a sequence are being deleted. It is paused meanwhile.
    struct Removal {
        /// The calls that delete.
        var calls = 0
        var through: Int64 = 0
        /// Whether it stays paused, because somebody paused it.
        var isPausedAfterwards: Bool
    }

    /// Calls that delete the unsent messages up to a sequence. Nothing of these starts; later ones do not wait for the end of the calls.
    struct Clear {
        var calls = 0
        var through: Int64 = 0
    }

    // MARK: Pauses

    /// Returns false if the conversation, or (nil) the whole queue, was paused already.
    mutating func pause(_ conversation: Name?) -> Bool {
        if let conversation {
            if let removal = removals[conversation] {
                removals[conversation]?.isPausedAfterwards = true
                return !removal.isPausedAfterwards
            }
            return conversations.insert(conversation).inserted
        }
        defer { isPaused = true }
        return !isPaused
    }

    /// `isFree`: it is not held by a removal.
    mutating func resume(_ conversation: Name?) -> (wasPaused: Bool, isFree: Bool) {
        guard let conversation else {
            defer { isPaused = false }
            return (isPaused, true)
        }
        guard let removal = removals[conversation] else { return (conversations.remove(conversation) != nil, true) }
        removals[conversation]?.isPausedAfterwards = false
        return (removal.isPausedAfterwards, false)
    }

    /// Whether somebody paused this conversation, which may be held by a removal as well.
    package func isPaused(byName conversation: Name) -> Bool {
        removals[conversation]?.isPausedAfterwards ?? conversations.contains(conversation)
    }

    /// The conversations that somebody paused, without those that are only held by a removal.
    package var byName: Set<Name> { removals.isEmpty ? conversations : conversations.filter(isPaused(byName:)) }

    // MARK: Deletions

    /// Whether a call deletes messages of this conversation, which is paused meanwhile.
    func isRemoving(_ conversation: Name) -> Bool { removals[conversation] != nil }

    mutating func beginRemoval(of conversation: Name, through sequence: Int64) {
        var removal = removals[conversation] ?? Removal(isPausedAfterwards: !conversations.insert(conversation).inserted)
        removal.calls &+= 1
        removal.through = max(removal.through, sequence)
        removals[conversation] = removal
    }

    /// Returns whether the conversation is not paused any more.
    mutating func endRemoval(of conversation: Name) -> Bool {
        guard var removal = removals[conversation] else { return false }
        removal.calls &-= 1
        removals[conversation] = removal.calls > 0 ? removal : nil
        guard removal.calls == 0, !removal.isPausedAfterwards else { return false }
        conversations.remove(conversation)
        return true
    }

    mutating func beginClear(of conversation: Name?, through sequence: Int64) {
        var clear = clears[conversation] ?? Clear()
        clear.calls &+= 1
        clear.through = max(clear.through, sequence)
        clears[conversation] = clear
    }

    /// Returns false if no call clears.
    mutating func endClear(of conversation: Name?) -> Bool {
        guard var clear = clears[conversation] else { return false }
        clear.calls &-= 1
        clears[conversation] = clear.calls > 0 ? clear : nil
        return true
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
}
