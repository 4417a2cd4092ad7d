import MsgQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension MessageQueue.Draft {
    /// Creates a draft whose body is the data. The parameters are the properties of the same names.
    public init(
        _ data: Data, conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
        notBefore: MessageQueue.Timestamp? = nil, expiresAt: MessageQueue.Timestamp? = nil, unmeteredOnly: Bool = false,
        replaceKey: String? = nil, priority: Int = 0, time: MessageQueue.Timestamp? = nil, delay: Duration? = nil, expiry: Duration? = nil
    ) {
        self.init(
            [UInt8](data), conversation: conversation, metadata: metadata, id: id, notBefore: notBefore, expiresAt: expiresAt,
            unmeteredOnly: unmeteredOnly, replaceKey: replaceKey, priority: priority, time: time, delay: delay, expiry: expiry)
    }

    /// The body.
    public var data: Data { Data(body) }
}

extension MessageQueue.Message {
    /// The body; nil if the page was requested without bodies.
    public var data: Data? { body.map { Data($0) } }
}

extension MessageQueue.Delivery {
    /// The body.
    public var data: Data { Data(body) }
}

extension MessageQueue {
    /// Replaces the body of a queued or failed message, as `edit(_:body:metadata:)` with bytes does.
    public func edit(_ id: String, body data: Data, metadata: [String: String]? = nil) throws(Error) {
        try edit(id, body: [UInt8](data), metadata: metadata)
    }

    /// The same, if the message was not edited since it was read, as `edit(_:body:metadata:ifEdited:)` with bytes.
    public func edit(_ id: String, body data: Data, metadata: [String: String]? = nil, ifEdited time: Timestamp?) throws(Error) {
        try edit(id, body: [UInt8](data), metadata: metadata, ifEdited: time)
    }

    /// Changes a received message, as `update(_:body:metadata:time:)` with bytes does.
    public func update(_ id: String, body data: Data, metadata: [String: String]? = nil, time: Timestamp? = nil) throws(Error) {
        try update(id, body: [UInt8](data), metadata: metadata, time: time)
    }
}
