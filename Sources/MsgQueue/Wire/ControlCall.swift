/// A call of a client of the control socket. It is indirect because, in the flat form, the compiler leaves bits of the tag
/// uninitialized, as Memcheck shows.
package indirect enum ControlCall: Sendable, Equatable {
    case list(Filter)
    case get(String)
    case explain(String)
    case attempts(String)
    case counts(conversation: String?)
    case conversations(before: Int64, limit: Int)
    /// nil: from the first.
    case conversationsByTime(before: TimePlace?, limit: Int)
    case conversation(String)
    case setTitle(String, conversation: String)
    case failures(limit: Int)
    /// nil: from the oldest that is kept.
    case changes(after: String?, limit: Int)
    case waiting
    case stats
    case statsText
    case minutes
    case state
    case banner(conversation: String?)
    case drain(conversation: String?, batch: Int, timeout: Int64?, includesFailed: Bool = false)
    case retry(String)
    /// The failed messages that the filter selects.
    case retryAll(Filter)
    case sendNow(String)
    /// `ifEdited`: when it was edited last; -1: any.
    case edit(String, ControlChange, ifEdited: Int64)
    case update(String, ControlChange)
    case delete(String)
    case clear(conversation: String?)
    case clearFailed(Filter)
    case deleteConversation(String)
    case pause(conversation: String?)
    case resume(conversation: String?)
    case backup(path: String)
    case check
    case enqueue(ControlDraft)
    case enqueueBatch([ControlDraft])
    /// Its draft has a sender.
    case record(ControlDraft)
    case recordBatch([ControlDraft])
    case mark(String, as: MessageStatus)
    case markBatch([String], as: MessageStatus)
    case markUpTo(String, as: MessageStatus)
    case setLifecycle(isInBackground: Bool)
    case withdrawPrompt
    case requestCollect
    /// `interval`: the shortest time between two deliveries of events, in milliseconds; 0: each at once.
    case subscribe(Set<EventName>, interval: Int64 = 0)
    case unsubscribe
    case ping
}

/// What the calls `edit` and `update` change.
package struct ControlChange: Sendable, Equatable {
    package var body: [UInt8] = []
    /// nil: it stays.
    package var metadata: [JSONValue.Member]?
    /// 0: it stays.
    package var time: Int64 = 0
}

/// A message of the calls `enqueue`, `record` and `record_batch`.
package struct ControlDraft: Sendable, Equatable {
    package var id: String?
    package var conversation = ""
    package var body: [UInt8] = []
    package var metadata: [JSONValue.Member] = []
    package var notBefore: Int64 = 0
    /// From the time of the call; 0: none.
    package var delay: Int64 = 0
    package var expiresAt: Int64 = 0
    /// In place of `expiresAt`; 0: none.
    package var expiry: Int64 = 0
    package var unmeteredOnly = false
    package var replaceKey: String?
    package var priority: Int32 = 0
    package var time: Int64 = 0
    /// Of `record_batch`; nil: it is one's own.
    package var sender: String?
}
