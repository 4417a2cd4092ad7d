import MsgQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension MessageQueue.Error: LocalizedError {
    /// A sentence for users, in English.
    public var errorDescription: String? {
        switch code {
        case .invalid: "This cannot be done with these values."
        case .notFound: "This message does not exist any more."
        case .duplicate: "This message was already accepted."
        case .conflict: "This is not possible now."
        case .busy: "This message is being sent."
        case .full: "The queue is full."
        case .tooLarge: "This message is too large."
        case .locked: "Another program has the queue open."
        case .closed, .forked: "The queue is closed."
        case .corrupt: "The stored messages are damaged."
        case .storage: "The message could not be stored. The disk may be full."
        case .unknown: "It is not known whether the message was stored. You can try again."
        case .tooNew: "The stored messages belong to a later version."
        case .permission: "Access to the stored messages is not permitted."
        case .timeout: "This took too long."
        case .noTransport: "There is no connection to send with."
        case .internal: "Something went wrong."
        }
    }

    /// The detail, for developers.
    public var failureReason: String? { detail }
}
