"""The same retrieval on Azure OpenAI and Azure AI Search: an extra, which nothing loads before it is asked for."""
