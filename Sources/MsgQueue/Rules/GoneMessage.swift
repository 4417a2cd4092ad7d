/// A message that is no longer in the store, as far as the event of its end says.
extension Event {
    /// The id of the message that left the store by this event.
    package var goneID: String? {
        switch self {
        case .discarded(let id, _, _), .deleted(let id, _), .replaced(let id, _, _): id
        default: nil
        }
    }
}

extension Message {
    /// Creates the message that ended by this event, without what was in the store alone; nil: no message left the store by it.
    package init?(gone event: Event) {
        switch event {
        case .discarded(let id, let conversation, let failure):
            self.init(
                gone: id, conversation, .failed, attempts: failure.attempts, failure: failure,
                because: Explanation(reason: .gone, until: 0, behind: nil, text: "It was discarded."))
        case .replaced(let id, let by, let conversation):
            self.init(
                gone: id, conversation, .queued,
                because: Explanation(reason: .gone, until: 0, behind: by, text: "It was replaced by a newer message."))
        case .deleted(let id, let conversation): self.init(deleted: id, conversation)
        default: return nil
        }
    }

    /// Creates a message that was sent by this event and has this status now.
    package init(sent change: StatusChange, _ status: MessageStatus) {
        self.init(
            gone: change.id, change.conversation, status, at: change.at, attempts: change.attempt,
            because: Explanation(reason: .done, until: 0, behind: nil, text: Words.explanation(Wait(reason: .done), now: change.at)))
    }

    /// Creates a message that was deleted.
    package init(deleted id: String, _ conversation: String) {
        self.init(gone: id, conversation, .queued, because: Explanation(reason: .gone, until: 0, behind: nil, text: "It was deleted."))
    }

    private init(
        gone id: String, _ conversation: String, _ status: MessageStatus, at sentAt: Int64 = 0, attempts: UInt32 = 0,
        failure: Failure? = nil, because explanation: Explanation
    ) {
        self.init(
            id: id, conversation: conversation, sender: nil, body: nil, bodySize: 0, preview: "", pairs: [], status: status, sequence: 0,
            createdAt: 0, time: 0, editedAt: 0, notBefore: 0, expiresAt: 0, nextAttemptAt: 0, lastAttemptAt: 0, sentAt: sentAt,
            deliveredAt: 0, readAt: 0, attempts: attempts, retriesUsed: 0, unmeteredOnly: false, priority: 0, failure: failure,
            failureBefore: nil, explanation: explanation)
    }
}
