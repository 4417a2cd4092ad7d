/// What a call changes of a stored message. Its id and its place in the order stay.
package struct MessageChange {
    /// In the caller's memory; only the store copies it.
    package var body: UnsafeRawBufferPointer
    /// nil: the metadata stays.
    package var metadata: [(key: String, value: String)]?
    /// When the message was composed, or sent by its sender; 0: the time stays.
    package var time: Int64
    /// The message that the caller means; nil: not given. They must be those of the message.
    package var id: String?
    package var conversation: Name?

    package init(
        body: UnsafeRawBufferPointer, metadata: [(key: String, value: String)]? = nil, time: Int64 = 0, id: String? = nil,
        conversation: Name? = nil
    ) {
        self.body = body
        self.metadata = metadata
        self.time = time
        self.id = id
        self.conversation = conversation
    }
}
