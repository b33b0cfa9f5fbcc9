"""The dialects in which a pod asks for a share.

It owns the dialects (moiety's annotations, nvshare's, KubeShare's, HAMi's, Run:ai's and KAI's,
MetaGPU's), each a pure function from a pod to its requests or a refusal, and how several are
joined. It never speaks to a cluster: facts about the cluster are arguments.
"""
